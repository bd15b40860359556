"""The table of stages: in which order, what each leaves, what it depends on, and whether a study has it.

Whether a stage is up to date is decided here, on the parsed file and on file contents, before anything heavy is
imported: that is why a second `tamis run` of an unchanged study takes a fraction of a second. What a stage does is in
the module of its name beside this one: ``run(context)``, and ``cost(study, seconds, duration)`` where it asks for runs.
Every stage draws from ``default_rng([seed, number of the stage])`` and writes its artifact without times, so that the
same study and seed give the same bytes, whatever the number of workers and however often it was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from tamis.results.manifest import current, read_manifest
from tamis.study.reader import (
    Raw,
    cheap_tables,
    core_code,
    drawn_from,
    emulates,
    emulates_loglike,
    hash_of,
    input_names,
    named_files,
    noise_parameters,
    open_tables,
    report_code,
    simulator_fingerprint,
    sources,
    study_names,
    surrogate_method,
    taken_apart,
)

_ASIDE = ("label", "limit", "group")  # of an observation: what is told of it, or which part it belongs to
_HOW_TOLD = ("use", "emulate", "draws", "where")  # of a test or prediction: what its runs do not depend on
_IMPOSED = ("name", "table", "conditions", "sweep", "synthetic")  # what they do
COMPARE = 10  # number of the generator of a comparison


@dataclass(frozen=True)
class Stage:
    """One stage of a study."""

    name: str
    number: int  # seeds its generator: never changed, or results would
    depends: Callable[[Facts], Sequence[Any]]  # what its hash is of
    applies: Callable[[Facts], bool]  # whether a study has it
    more: tuple[str, ...] = ()  # artifacts beside the one called like the stage
    keys: tuple[
        str, ...
    ] = ()  # files with keys of runs, besides those of every stage, where it asked for any
    per_part: bool = False  # done for each part of split data alone, on the shared surrogate
    for_next: bool = True  # what ranks the next experiments needs it
    suffix: str = ".npz"

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The files it leaves."""
        return f"{self.name}{self.suffix}", *self.more

    @property
    def beside(self) -> tuple[str, ...]:
        """The files it may leave: keys of the runs that it asked for."""
        return f"{self.name}-runs.npz", *self.keys

    @property
    def module(self) -> Any:
        """The module that does the work, imported when it is asked for."""
        return import_module(f"tamis.study.stages.{self.name}")


class Facts:
    """What stages depend on, as plain tables of a study file and hashes of the files that it names."""

    def __init__(self, raw: Raw) -> None:
        """Look at the file for what tells which stages it has."""
        tables = {kind: raw.tables_of(kind) for kind in ("experiment", "predict", "next")}
        self.raw, self.ahead, self.possible = raw, tables["predict"], tables["next"]
        self.tests = [_without(table, *_ASIDE) for table in tables["experiment"]]
        self.used = [t for t in self.tests if t.get("use", "calibrate") == "calibrate"]
        self.waiting = {place: _without(table, *_ASIDE) for place, table in open_tables(raw).items()}
        asked = [table for each in tables.values() for table in each]
        self.calibrated = bool(self.used)
        self.chained = drawn_from(raw.table("parameters")) is not None
        self.designed = self.calibrated or any(emulates(raw, table) for table in asked)
        self.emulated = self.designed and surrogate_method(raw) != "none"
        self.hashes: dict[str, str] = {}  # that are known so far; a stage asks for those of earlier ones

    def __getitem__(self, stage: str) -> str:
        """Return the hash of a stage."""
        if stage not in self.hashes:
            self.hashes[stage] = hash_of(*STAGES[stage].depends(self))
        return self.hashes[stage]

    def others(self, stage: str) -> list[str]:
        """Return the hashes of all other stages."""
        return [self[name] for name in STAGES if name != stage]

    def files(self, tables: Any) -> dict[str, str]:
        """Return the hashes of all files that tables name."""
        return named_files(self.raw, tables)

    @cached_property
    def common(self) -> tuple[Any, ...]:
        """What everything random depends on."""
        return self.raw.tables.get("seed", 1), core_code()

    @cached_property
    def model(self) -> str:
        """The simulator and what is held fixed of its inputs."""
        model = {key: value for key, value in self.raw.table("model").items() if key != "cheap"}
        files = self.files(model.get("inputs", {}))
        return hash_of(model, simulator_fingerprint(self.raw), files, *self.kept())

    def kept(self) -> tuple[Any, ...]:
        """What runs depend on besides that keep the observed numbers only: all that is observed."""
        if self.raw.table("model").get("keep") != "observed":
            return ()
        asked = [table for kind in ("experiment", "predict", "next") for table in self.raw.tables_of(kind)]
        seen = [_without(table, *_ASIDE, "noise", "sd") for table in asked]
        return seen, self.files(seen)

    @cached_property
    def cheaper(self) -> list[Any]:
        """The cheaper simulators, cheapest first, without what only enrichment asks of them."""
        found = [{k: v for k, v in table.items() if k != "cost"} for table in cheap_tables(self.raw)]
        return [(t, simulator_fingerprint(self.raw, t), self.files(t.get("inputs", {}))) for t in found]

    @cached_property
    def prior(self) -> tuple[Any, ...]:
        """The unknowns, as a list since their order is that of the arrays' columns, and their correlation."""
        return list(self.raw.table("parameters").items()), self.raw.tables.get("correlation", [])

    @cached_property
    def varied(self) -> tuple[Any, ...]:
        """The same of the unknowns that are inputs of the simulator."""
        inputs, noisy = input_names(self.raw), set(noise_parameters(self.raw, self.raw.table("parameters")))
        laws, correlation = self.prior
        return [
            (n, p) for n, p in laws if (n in inputs if inputs is not None else n not in noisy)
        ], correlation

    @cached_property
    def run_at_design(self) -> list[dict[str, Any]]:
        """All that is run at the design: tests, and what a surrogate is to predict."""
        return [*self.tests, *(t for t in (*self.ahead, *self.possible) if emulates(self.raw, t))]

    def imposed(self) -> tuple[Any, ...]:
        """The conditions of what is run at the design, and which part of the data each belongs to."""
        kept = [{k: v for k, v in t.items() if k in _IMPOSED} for t in self.run_at_design]
        return kept, taken_apart(self.raw), self.files(kept)

    def seen(self) -> tuple[Any, ...]:
        """What is observed there."""
        bare = [_without(table, *_ASIDE, "noise", "sd") for table in self.run_at_design]
        kept = [{k: v for k, v in table.items() if k not in _HOW_TOLD} for table in bare]
        return kept, self.files(kept)

    @cached_property
    def likely(self) -> tuple[Any, ...]:
        """What the likelihood depends on."""
        data = [{k: v for k, v in t.items() if k not in ("emulate", "draws")} for t in self.used]
        return *self.common, self.model, *self.prior, data, self.files(data)

    def fitted(self) -> tuple[Any, ...]:
        """The surrogate's settings, without its threshold which only judges it, and what leads an enrichment."""
        table = self.raw.table("surrogate")
        led = table.get("enrich", {}).get("where") == "posterior" or emulates_loglike(self.raw)
        costs = [t.get("cost") for t in cheap_tables(self.raw)] if "enrich" in table else []
        return {k: v for k, v in table.items() if k != "min_q2"}, costs, *(self.likely if led else ())

    def sampled(self) -> tuple[Any, ...]:
        """The sampler's settings, which part of the data it is given, and what answers for the simulator."""
        calls = [self["surrogate"]] if self.emulated else []
        return self.raw.table("inference"), taken_apart(self.raw), *calls

    def drawn(self) -> tuple[Any, ...]:
        """What draws from posteriors of other studies depend on: theirs, as settings and as the bytes there are."""
        return self.raw.table("parameters"), [
            (Facts(source)["posterior"], posterior_content(source)) for source in sources(self.raw)
        ]

    def predicted(self) -> tuple[Any, ...]:
        """Tests and predictions, labels included."""
        printed = [table.get("observe") for table in self.raw.tables_of("experiment")]
        return self.tests, printed, self.ahead, self.files([self.tests, self.ahead])

    def asks_sensitivity(self) -> bool:
        """Return whether the file asks for it, or a surrogate of the observables gives it."""
        given = self.emulated and not emulates_loglike(self.raw)
        return given or (self.designed and "sensitivity" in self.raw.tables)


def _without(table: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Leave out of a test what a stage does not look at."""
    observe = [
        {k: v for k, v in o.items() if k not in keys} for o in table.get("observe", []) if isinstance(o, dict)
    ]
    return {**table, "observe": observe}


# fmt: off
_TABLE = (
    Stage("synthetic", 11, lambda f: (core_code(), f.model, f.waiting, f.files(f.waiting)),
          lambda f: bool(f.waiting)),
    Stage("design", 0, lambda f: (*f.common, *f.varied, f.raw.table("design")), lambda f: f.designed),
    Stage("runs", 1, lambda f: (f["design"], f.model, *f.imposed()), lambda f: f.designed),
    Stage("observables", 2, lambda f: (f["runs"], *f.seen()), lambda f: f.designed),
    Stage("cheap", 15, lambda f: (f["observables"], f.cheaper), lambda f: f.emulated and bool(f.cheaper)),
    Stage("surrogate", 3, lambda f: (f["cheap"], *f.fitted()), lambda f: f.emulated, more=("emulation.npz",)),
    Stage("sensitivity", 4, lambda f: (f["surrogate"], f.raw.table("sensitivity")),
          lambda f: f.asks_sensitivity(), for_next=False),
    Stage("posterior", 5, lambda f: (*f.likely, *f.sampled()), lambda f: f.calibrated,
          keys=("sampled.npz",), per_part=True),
    Stage("sources", 13, lambda f: (*f.common, *f.drawn()), lambda f: f.chained),
    Stage("prediction", 6, lambda f: (f["posterior"], f["surrogate"], f["sources"], *f.predicted()), lambda f: True,
          per_part=True, for_next=False),
    Stage("propagation", 7, lambda f: (f["prediction"], f.raw.table("propagate")),
          lambda f: "propagate" in f.raw.tables, per_part=True, for_next=False),
    Stage("fragility", 14, lambda f: (f["prediction"], f.raw.table("fragility")),
          lambda f: "fragility" in f.raw.tables, per_part=True, for_next=False),
    Stage("replay", 16, lambda f: (f["prediction"], f.raw.table("replay")), lambda f: "replay" in f.raw.tables,
          per_part=True, for_next=False),
    Stage("next", 8, lambda f: (f["posterior"], f["surrogate"], f.possible, f.files(f.possible)),
          lambda f: f.calibrated and bool(f.possible), per_part=True),
    Stage("report", 9, lambda f: (*f.others("report"), f.raw.text, f.raw.parents, report_code()), lambda f: True,
          suffix=".html"),
)
# fmt: on
STAGES: dict[str, Stage] = {stage.name: stage for stage in _TABLE}


def stage_hashes(raw: Raw) -> dict[str, str]:
    """Hash the settings and inputs of every stage; an equal hash means that the stage need not run again."""
    facts = Facts(raw)
    return {stage: facts[stage] for stage in STAGES}


def posterior_content(raw: Raw) -> str:
    """Return the hash of the bytes of a study's posterior; "" where there is none that is up to date."""
    entry = read_manifest(raw.results).get("stages", {}).get("posterior", {})
    stage = STAGES["posterior"]
    there = current(raw.results, entry, Facts(raw)["posterior"], stage.artifacts)
    return str(entry.get("content", {}).get(stage.artifacts[0], "")) if there else ""


def applies(raw: Raw, stage: str) -> bool:
    """Return whether a study has this stage."""
    return STAGES[stage].applies(Facts(raw))


def up_to_date(raw: Raw, upto: str = "report") -> dict[str, bool]:
    """Say for each stage up to ``upto`` whether its hash and its files are those of the last run."""
    done, facts = read_manifest(raw.results).get("stages", {}), Facts(raw)
    names = list(STAGES)
    asked = [STAGES[name] for name in names[: names.index(upto) + 1]]
    return {
        stage.name: current(raw.results, done.get(stage.name, {}), facts[stage.name], stage.artifacts)
        for stage in asked
        if stage.applies(facts)
    }


def code_of_now(raw: Raw) -> dict[str, str]:
    """Hash the code of tamis and that of the simulator, as stages are run with now."""
    return {"tamis": core_code()[:16], "simulator": simulator_fingerprint(raw)[:16]}


def reasons(raw: Raw) -> dict[str, str]:
    """Say why each stage of a study has to be done, in words; nothing where it is up to date or never was."""
    done, facts, now = read_manifest(raw.results).get("stages", {}), Facts(raw), code_of_now(raw)
    found = {}
    for name, good in up_to_date(raw).items():
        entry, why = done.get(name), ""
        if not good and entry:
            was = entry.get("code")  # not recorded by former versions
            if entry.get("hash") == facts[name]:
                why = "its files are missing, or not as they were written"
            elif was is None:
                why = "the study file, its data, some code or an earlier stage has changed"
            elif was["simulator"] != now["simulator"]:
                why = "the simulator's code has changed"
            elif was["tamis"] != now["tamis"]:
                why = "tamis itself has changed"
            elif name == "sources" and (changed := _changed_sources(raw)):
                why = f"the posterior of {' and of '.join(changed)} has changed"
            else:
                why = "the study file, its data or an earlier stage has changed"
        found[name] = why
    return found


def _changed_sources(raw: Raw) -> list[str]:
    """Return the studies, as the file names them, whose posteriors are not those that were drawn from."""
    drawn, names = read_manifest(raw.results).get("posteriors", {}), drawn_from(raw.table("parameters"))
    each = zip([names] if isinstance(names, str) else names, sources(raw), strict=True)
    return [name for name, source in each if drawn.get(name, "") not in ("", posterior_content(source))]


def comparison_folder(raws: Sequence[Raw]) -> Path:
    """Return the folder of a comparison's results."""
    return raws[0].base / "results" / ("compare-" + "-".join(study_names(raws)))


def comparison_hash(raws: Sequence[Raw]) -> str:
    """Hash what a comparison depends on: everything its studies' reports do."""
    return hash_of([Facts(raw)["report"] for raw in raws])


def read_comparison(raws: Sequence[Raw]) -> Mapping[str, Any] | None:
    """Read the record of the last comparison of these studies, None if it is not up to date."""
    folder = comparison_folder(raws)
    try:
        found: Mapping[str, Any] = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fresh = all(all(up_to_date(raw).values()) for raw in raws) and (folder / "report.html").is_file()
    return found if fresh and found.get("hash") == comparison_hash(raws) else None
