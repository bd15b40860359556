"""The stages of a study in their order, and what each leaves; standard library only."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal[
    "synthetic",
    "design",
    "runs",
    "observables",
    "surrogate",
    "sensitivity",
    "posterior",
    "prediction",
    "propagation",
    "next",
    "report",
]
STAGES: tuple[Stage, ...] = get_args(Stage)
NUMBERS = {stage: i for i, stage in enumerate((*STAGES[1:], "compare", STAGES[0]))}  # which seed generators
PER_PART: tuple[Stage, ...] = ("posterior", "prediction", "propagation", "next")  # what parts do alone
ARTIFACTS: dict[Stage, tuple[str, ...]] = {
    "synthetic": ("synthetic.npz",),
    "design": ("design.npz",),
    "runs": ("runs.npz",),
    "observables": ("observables.npz",),
    "surrogate": ("surrogate.npz", "emulation.npz"),
    "sensitivity": ("sensitivity.npz",),
    "posterior": ("posterior.npz",),
    "prediction": ("prediction.npz",),
    "propagation": ("propagation.npz",),
    "next": ("next.npz",),
    "report": ("report.html",),
}
BESIDE: dict[Stage, tuple[str, ...]] = {  # keys of runs, beside an artifact, where it asked for any
    stage: (f"{stage}-runs.npz", *(("sampled.npz",) if stage == "posterior" else ())) for stage in STAGES
}
