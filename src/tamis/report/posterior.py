"""How the posterior was sampled: the tempering ladder, or chains side by side, and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tamis.report.blocks import Block, Facts, Heading, Picture, grid
from tamis.report.decades import label_parameter, seen_posterior
from tamis.report.parameters import short_title
from tamis.report.style import (
    HELD_OUT,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    canvas,
    heading,
    label_axis,
    limits,
    place,
    styled,
    superscript,
)
from tamis.report.tables import Cell, count, number, percent, plain, with_error
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior

_SHOWN = 6  # parameters whose chains are drawn
_STEPS = 200  # points of a curve along the steps
_RANKS = 100  # places where the ranks of a chain are compared
_BAND = 0.01  # chance that a chain that has mixed leaves the strip
_SCALARS = {
    "disagreement": "two estimates of the log evidence apart, in standard errors (4 is too many)",
    "burn_in": "steps dropped at the beginning of each chain",
    "region_points": "points at which trajectories are drawn",
    "region_size": "share of the prior in which their tops may lie",
    "carried": "share of the surrogate's variance that trajectories carry, where the draws lie",
    "mode_log_density": "log density at the highest point",
    "steps": "steps of each chain",
    "nan": "log-likelihoods that were not a number",
}


_LADDER = {
    "exponents": ("Tempering ladder", "exponent"),
    "acceptance": ("Accepted moves", "share"),
    "log_evidence_increments": ("Log evidence gained", "increment"),
}


def sampler_blocks(posterior: Posterior) -> list[Block]:
    """Return what is to be said and drawn of the sampler."""
    found = posterior.diagnostics
    facts = [("draws", count(len(posterior.flat)).text)]
    if posterior.log_evidence is not None:
        facts.append(("log evidence", with_error(*posterior.log_evidence)))
    scalars = {k: float(np.ravel(v)[0]) for k, v in found.items() if np.ndim(v) == 0}
    if "carried" in scalars:
        scalars["carried"] = min(scalars["carried"], 1.0)  # beyond it, chance: trajectories are a sample
    if "likelihood_calls" in scalars:
        facts.append(("likelihood calls", count(int(scalars.pop("likelihood_calls"))).text))
    if not scalars.get("nan", 1.0):
        del scalars["nan"]
    steps = ladder(found)
    if "exponents" in steps:
        facts.append(("tempering stages", str(len(steps["exponents"]) - 1)))
    if len(posterior.x) > 1:
        facts.append(("chains", count(len(posterior.x)).text))
    blocks: list[Block] = [Facts(tuple(facts))]
    if "exponents" in steps:
        caption = "Stage by stage, from the prior (exponent 0) to the posterior (exponent 1)."
        files = {"sampler": sampler_numbers(found)}
        blocks.append(Picture("sampler", sampler_figure(found), caption, files))
    if len(posterior.x) > 1:
        blocks.append(_chains(posterior))
    blocks += _trajectories(posterior)
    blocks += _effective(posterior)
    if scalars:
        rows = [(_SCALARS.get(name, name.replace("_", " ")), number(v)) for name, v in scalars.items()]
        numbers = Table(("diagnostic", "value"), tuple(scalars.items()))
        blocks.append(grid(("diagnostic", "value"), rows, name="diagnostics", numbers=numbers))
    return blocks


def _chains(posterior: Posterior) -> Picture:
    shown = min(posterior.space.dim, _SHOWN)
    caption = (
        "Chains. Left: median and 90 % of all chains at each step; a drift means that they had not forgotten their "
        "start. Right: how far each chain's ranks among all draws stray from evenness; a chain outside the strip "
        "tells something else than the others."
    )
    if shown < posterior.space.dim:
        caption += f" Of {posterior.space.dim} parameters, the {shown} that mixed worst."
    return Picture("chains", chains_figure(posterior), caption, {"chains": chain_numbers(posterior)})


def worst_mixed(posterior: Posterior) -> list[int]:
    """Return the parameters that are drawn, in their own order: those of largest rhat."""
    rhat = np.ravel(posterior.diagnostics.get("rhat", np.ones(posterior.space.dim)))
    worst = np.argsort(-np.nan_to_num(rhat, nan=np.inf), kind="stable")[:_SHOWN]
    return sorted(int(i) for i in worst)


@styled
def chains_figure(posterior: Posterior) -> Figure:
    """Draw, for each parameter, all chains along the steps and the evenness of their ranks."""
    columns = worst_mixed(posterior)
    height, cell = 0.95, 1.5
    figure = canvas(WIDTH, 0.55 + cell * len(columns))
    drawn = seen_posterior(posterior)
    at, bands = _bands(drawn)
    places, stray = rank_curves(posterior)
    for row, k in enumerate(columns):
        top = 0.5 + row * cell
        left = place(figure, 0.95, top, WIDTH / 2 - 1.2, height)
        left.fill_between(at, bands[0, :, k], bands[2, :, k], color=TOTAL, lw=0)
        left.plot(at, bands[1, :, k], color=POSTERIOR)
        left.set_xlim(at[0], max(at[-1], at[0] + 1))
        left.set_ylim(*limits([bands[:, :, k]]))
        label_parameter(left.yaxis, drawn.space.parameters[k], ticks=4)
        left.set_ylabel(short_title(drawn.space.parameters[k], left.get_ylim(), height + 0.3))
        label_axis(left.xaxis, "step kept" if row == len(columns) - 1 else "", ticks=5)
        right = place(figure, WIDTH / 2 + 0.55, top, WIDTH / 2 - 0.7, height)
        width = strip(posterior, k)
        right.axhspan(-width, width, color=PRIOR_FILL, lw=0)
        right.plot(places, stray[:, k].T, color=PARAMETERS, lw=0.5, alpha=0.6)
        out = np.abs(stray[:, k]).max(axis=1) > width
        right.plot(places, stray[out, k].T, color=HELD_OUT, lw=0.9)
        right.set_xlim(0, 1)
        edge = 1.15 * max(width, float(np.abs(stray[:, k]).max()))
        right.set_ylim(-edge, edge)
        label_axis(right.yaxis, "", ticks=3)
        label_axis(right.xaxis, "rank among all draws" if row == len(columns) - 1 else "", ticks=5)
        if row == 0:
            heading(left, "All chains, step by step")
            heading(right, "Excess of each chain below a rank")
    handles = [
        Line2D([], [], color=POSTERIOR, label="median of the chains"),
        Patch(color=TOTAL, label="90 % of them"),
        Patch(color=PRIOR_FILL, label="where mixed chains stay"),
        Line2D([], [], color=HELD_OUT, label="a chain apart"),
    ]
    figure.legend(handles=handles, loc="upper left", ncols=4, borderaxespad=0.1)
    return figure


def _bands(posterior: Posterior) -> tuple[Array, Array]:
    """Return steps (s,) and quantiles of the chains there, (3, s, d); steps are joined where there are many."""
    _, steps, d = posterior.x.shape
    join = -(-steps // _STEPS)
    kept = steps // join * join
    blocks = np.moveaxis(posterior.x[:, :kept], 1, 0).reshape(kept // join, -1, d)
    return np.arange(len(blocks)) * join + (join + 1) / 2, np.quantile(blocks, (0.05, 0.5, 0.95), axis=1)


def _groups(posterior: Posterior) -> int:
    return len(posterior.diagnostics.get("group_rhat", np.ones(1)))


def rank_curves(posterior: Posterior) -> tuple[Array, Array]:
    """Return places (p,) and, for each chain and parameter, the share of its draws of lower rank less what is even.

    Ranks are among the draws of the same posterior: of the chain's own trajectory, where there are several.
    """
    chains, steps, d = posterior.x.shape
    groups = _groups(posterior)
    together = posterior.x.reshape(groups, -1, d)
    order = np.argsort(np.argsort(together, axis=1, kind="stable"), axis=1, kind="stable")
    ranks = ((order + 0.5) / together.shape[1]).reshape(chains, steps, d)
    places = (np.arange(_RANKS) + 0.5) / _RANKS
    sorted_ranks = np.sort(ranks, axis=1)
    below = np.stack(
        [[np.searchsorted(sorted_ranks[c, :, k], places) for k in range(d)] for c in range(chains)]
    )
    return places, below / steps - places


def strip(posterior: Posterior, k: int) -> float:
    """Return how far the curve of a mixed chain of a parameter strays (Dvoretzky, Kiefer & Wolfowitz 1956)."""
    chains, steps, _ = posterior.x.shape
    ess = np.ravel(posterior.diagnostics.get("ess", np.full(posterior.space.dim, chains * steps)))
    each = min(float(steps), max(1.0, float(ess[k]) * _groups(posterior) / chains))
    return min(1.0, math.sqrt(math.log(2 * chains / _BAND) / (2 * each)))


def chain_numbers(posterior: Posterior) -> Table:
    """Return what was drawn of the chains along the steps."""
    at, bands = _bands(posterior)
    names = posterior.space.names
    columns = ("step", *(f"{name} {q} %" for name in names for q in (5, 50, 95)))
    rows = tuple(
        (float(step), *(float(bands[q, i, k]) for k in range(len(names)) for q in range(3)))
        for i, step in enumerate(at)
    )
    return Table(columns, rows)


def _trajectories(posterior: Posterior) -> list[Block]:
    """Show how much of the spread the surrogate of the log-likelihood adds."""
    found = posterior.diagnostics
    if "surrogate_share" not in found:
        return []
    names = posterior.space.names
    columns = ("parameter", "sd", "sd by the predictor alone", "share of the variance due to the surrogate")
    sd = posterior.flat.std(axis=0, ddof=1)
    rows = [
        (name, float(sd[i]), float(found["predictor_sd"][i]), float(found["surrogate_share"][i]))
        for i, name in enumerate(names)
    ]
    shown = [(name, number(a), number(b), number(c, percent(c))) for name, a, b, c in rows]
    caption = (
        "Each trajectory of the surrogate has a posterior of its own; together they are the answer. The predictor "
        "alone would leave out what the surrogate does not know."
    )
    table = grid(columns, shown, name="trajectories", numbers=Table(columns, tuple(rows)), caption=caption)
    return [Heading("Trajectories of the log-likelihood"), table]


def _effective(posterior: Posterior) -> list[Block]:
    """Show how many independent draws each parameter's are worth, and whether chains agree."""
    known = {k: np.ravel(v) for k, v in _sized(posterior.diagnostics, posterior.space.dim).items()}
    if not known:
        return []
    titles = {"ess": "effective draws", "rhat": "rhat"}
    rows = [
        (name, *(_diagnostic(k, float(v[i])) for k, v in known.items()))
        for i, name in enumerate(posterior.space.names)
    ]
    numbers = Table(
        ("parameter", *known),
        tuple((n, *(float(v[i]) for v in known.values())) for i, n in enumerate(posterior.space.names)),
    )
    caption = (
        "rhat: above 1.05 the chains have hardly mixed, above 1.1 they have not." if "rhat" in known else ""
    )
    if _groups(posterior) > 1:
        caption += " Both are of the worst trajectory."
    columns = ("parameter", *(titles[k] for k in known))
    return [grid(columns, rows, name="effective", numbers=numbers, caption=caption)]


def _sized(diagnostics: Mapping[str, Array], dim: int) -> dict[str, Array]:
    return {k: v for k, v in diagnostics.items() if k in ("ess", "rhat") and np.size(v) == dim}


def _diagnostic(name: str, value: float) -> Cell:
    return count(round(value)) if name == "ess" else number(value, plain(value, 4))


def ladder(diagnostics: Mapping[str, Array]) -> dict[str, Array]:
    """Return what a tempering sampler says of each stage, of what there is."""
    found = {
        key: np.ravel(np.asarray(diagnostics[key], dtype=float)) for key in _LADDER if key in diagnostics
    }
    return {key: values for key, values in found.items() if len(values) > 1}


def _first(key: str, values: Array) -> int:
    """Return the stage of the first value: 0 is the prior, with exponent 0 and nothing moved yet."""
    return 0 if key == "exponents" and values[0] == 0 else 1


@styled
def sampler_figure(diagnostics: Mapping[str, Array]) -> Figure:
    """Draw tempering exponent, acceptance and gained log evidence, stage by stage."""
    shown = ladder(diagnostics)
    figure = canvas(WIDTH, 2.5)
    width = WIDTH / len(_LADDER)
    for i, (key, values) in enumerate(shown.items()):
        title, ylabel = _LADDER[key]
        ax = place(figure, i * width + 0.62, 0.32, width - 0.8, 1.6)
        stage = np.arange(len(values)) + _first(key, values)
        if key == "log_evidence_increments":
            ax.bar(stage, values, color=PARAMETERS, width=0.7)
            ax.axhline(0, color=PRIOR, lw=0.6)
        else:
            ax.plot(stage, values, color=POSTERIOR, marker="o", ms=3)
        ax.set_xlim(-0.5, max(float(stage[-1]), 1.0) + 0.5)
        if key == "exponents":
            ax.set_yscale("symlog", linthresh=float(values[values > 0].min()), linscale=0.3)
            ax.set_ylim(0, 1.3)
            powers = np.arange(math.ceil(math.log10(values[values > 0].min()) - 1e-9), 1)
            ticks = 10.0 ** powers[:: -(-len(powers) // 5) or 1]
            ax.set_yticks(
                [0.0, *ticks], ["0", *(f"10{superscript(int(p))}" for p in np.log10(ticks).round())]
            )
            ax.minorticks_off()
            ax.set_ylabel(ylabel)
        else:
            ax.set_ylim(*((0.0, 1.0) if key == "acceptance" else limits([values, np.zeros(1)])))
            label_axis(ax.yaxis, ylabel)
        label_axis(ax.xaxis, "stage", ticks=6)
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        heading(ax, title)
    return figure


def sampler_numbers(diagnostics: Mapping[str, Array]) -> Table:
    """Return what was drawn of the sampler, a row per stage."""
    shown = ladder(diagnostics)
    length = max(len(values) + _first(key, values) for key, values in shown.items())
    rows = []
    for stage in range(length):
        at = {key: stage - _first(key, values) for key, values in shown.items()}
        row = (float(v[at[key]]) if 0 <= at[key] < len(v) else None for key, v in shown.items())
        rows.append((stage, *row))
    return Table(("stage", *shown), tuple(rows))
