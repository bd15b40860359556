"""A study as Python code uses it: read from its file, run, and described for readers of its results."""

from __future__ import annotations

from pathlib import Path

from tamis.results.records import Results
from tamis.results.study import StudyRecord
from tamis.runs.pool import Executors
from tamis.study import definition
from tamis.study.build import build
from tamis.study.reader import read
from tamis.study.record import record
from tamis.study.run import run
from tamis.types import Progress


class Study(definition.Study):
    """One model, its unknowns, the tests it is held against, and what is asked of it."""

    @classmethod
    def load(cls, path: Path | str) -> Study:
        """Read, check and build a study file; nothing is run."""
        return cls(**vars(build(read(Path(path)))))

    def run(
        self,
        upto: str = "report",
        *,
        executor: Executors = 1,
        progress: Progress | None = None,
        force: bool = False,
    ) -> Results:
        """Bring every stage up to ``upto`` up to date; ``force`` goes on with a surrogate that is too poor."""
        return run(self, upto, executor=executor, progress=progress, force=force)

    def record(self) -> StudyRecord:
        """Return what a reader of the results must know of the study."""
        return record(self)
