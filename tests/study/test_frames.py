"""How many calls lie between the command line and a simulator: a reader who follows one sample walks through all."""

from __future__ import annotations

import pytest

from tamis.cli.main import main
from tests.study.beam import edit, few_draws, write

COUNTED = """
import traceback
from pathlib import Path

@beam.batch
def counted(**inputs):
    names = [frame.name for frame in traceback.extract_stack()]
    if "main" in names and "polish" not in names:  # an optimiser has frames of its own
        with (Path(__file__).parent / "frames").open("a") as file:
            print(*names[names.index("main"):], file=file)
    return _(**inputs)
"""


@pytest.mark.parametrize("method", ["tmcmc", "metropolis"])
def test_from_main_to_the_batch_interface(tmp_path, method):
    write(tmp_path)
    few_draws(tmp_path)
    model = tmp_path / "model.py"
    model.write_text(model.read_text() + COUNTED)
    if method == "tmcmc":
        edit(tmp_path, 'method = "metropolis"\nchains = 40\ndraws = 40', 'method = "tmcmc"\nn = 100')
    main(["run", str(tmp_path / "study.toml"), "--to", "posterior", "-j", "0"])
    seen = {tuple(line.split()) for line in (tmp_path / "frames").read_text().splitlines()}
    steps = [names for names in seen if "step" in names]
    assert steps and all(names[-1] == "counted" for names in seen)
    # to a compiled kernel there is one frame more, that of the threads it is split over, and its own
    assert max(map(len, seen)) + 2 <= 15, " > ".join(max(seen, key=len))
