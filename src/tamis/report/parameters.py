"""What the data taught about the parameters: densities over their priors, and every pair of them.

The pair plot follows Hadjidoukas et al. 2014 (10.1016/j.cma.2014.07.017), figures 2-4: draws coloured by
log-likelihood above the diagonal, smoothed densities below it. Clouds and densities are pictures inside the
SVG, since thousands of vector dots weigh megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter

from tamis.report import density
from tamis.report.decades import along, exponent, label_parameter, physical, seen, seen_posterior
from tamis.report.style import (
    DATA,
    PARAMETERS,
    POSTERIOR,
    PRIOR,
    PRIOR_FILL,
    TOTAL,
    WIDTH,
    canvas,
    fit,
    folded,
    label_axis,
    place,
    scaled_title,
    styled,
)
from tamis.report.tables import columns_table
from tamis.space import Parameter
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior
    from tamis.results.study import Reference

MOST = 8  # parameters of a pair plot; more axes than 64 cannot be read
_CLOUD = 2000
_FLOOR = 5e-3  # of the peak, where the colours of a density end
_LIKELY = LinearSegmentedColormap.from_list("likely", ["#d9d2c5", "#c9a227", "#3b7a57", "#0b3d6b"])
_DENSE = LinearSegmentedColormap.from_list("dense", ["#ffffff", TOTAL, PARAMETERS, POSTERIOR, "#062f57"])
_MARKS = ("D", "s", "^", "v", "P", "X")


def prior_curve(parameter: Parameter, low: float, high: float) -> tuple[Array, Array]:
    """Return abscissae and density of a prior between two bounds."""
    x = np.linspace(low, high, 200)
    height = np.exp(np.asarray(parameter.prior.logpdf(x), dtype=float))
    return x, np.minimum(height, height[np.isfinite(height)].max())  # some laws are infinite at a bound


def prior_range(parameter: Parameter) -> tuple[float, float]:
    """Return the range that holds 99 % of a prior."""
    low, high = np.asarray(parameter.prior.ppf(np.array([0.005, 0.995])), dtype=float)
    return float(low), float(high)


@styled
def marginals_figure(posterior: Posterior, references: Sequence[Reference] = ()) -> Figure:
    """Draw each parameter's posterior density over its prior's, with median, interval and published means."""
    d = posterior.space.dim
    columns = min(d, 3)
    width = WIDTH / max(columns, 2)
    cell = 1.4 + 0.6
    figure = canvas(WIDTH, 0.36 + cell * -(-d // columns))
    summary, drawn = posterior.summary(), seen_posterior(posterior)
    for i, parameter in enumerate(drawn.space.parameters):
        top = 0.36 + (i // columns) * cell
        ax = place(figure, (i % columns) * width + 0.3, top, width - 0.5, 1.4)
        row = dict(zip(summary.columns, summary.rows[i], strict=True))
        middle, low, high = along(parameter, np.array([row[q] for q in ("median", "q05", "q95")])).tolist()
        _draw_marginal(ax, drawn.flat[:, i], parameter, middle, (low, high))
        for mark, reference in zip(_MARKS, references, strict=False):
            if parameter.name in reference.mean:
                _draw_reference(ax, reference, parameter, mark)
        label_parameter(ax.xaxis, parameter, ticks=5, room=width - 0.4)
    handles: list[Patch | Line2D] = [
        Patch(color=PRIOR_FILL, label="prior"),
        Patch(facecolor=PARAMETERS, edgecolor=POSTERIOR, label="posterior, 90 % interval in blue"),
        Line2D([], [], color=POSTERIOR, lw=1.4, label="median"),
    ]
    for mark, reference in zip(_MARKS, references, strict=False):
        if reference.mean:
            text = fit(f"mean ± sd: {reference.source}", 2.8, 8.0)
            handles.append(Line2D([], [], ls="", marker=mark, ms=4, mfc="white", mec=DATA, label=text))
    figure.legend(
        handles=handles,
        loc="upper left",
        ncols=len(handles),
        handlelength=1.3,
        columnspacing=1.4,
        borderaxespad=0.1,
    )
    return figure


def _draw_marginal(
    ax: Axes, draws: Array, parameter: Parameter, median: float, interval: tuple[float, float]
) -> None:
    low, high = density.span(draws, parameter.prior)
    x, height = density.curve(draws, low, high)
    wide = prior_range(parameter)
    if high - low > 0.25 * (wide[1] - wide[0]):  # else the posterior would be a needle: stay close to it
        ax.set_xlim(min(low, wide[0]), max(high, wide[1]))
    else:
        reach = 0.5 * (high - low)
        bounds = np.asarray(parameter.prior.ppf(np.array([0.0, 1.0])), dtype=float)
        ax.set_xlim(max(low - reach, bounds[0]), min(high + reach, bounds[1]))
    ax.fill_between(*prior_curve(parameter, *ax.get_xlim()), color=PRIOR_FILL, lw=0, zorder=1)
    ax.fill_between(x, height, color=TOTAL, lw=0, zorder=2)
    inside = (x >= interval[0]) & (x <= interval[1])
    ax.fill_between(x, height, where=inside.tolist(), color=PARAMETERS, lw=0, zorder=3)
    ax.plot(x, height, color=POSTERIOR, lw=1.2, zorder=4)
    ax.vlines(median, 0, float(np.interp(median, x, height)), color=POSTERIOR, lw=1.4, zorder=5)
    ax.set_ylim(0, 1.22 * float(height.max()))
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _draw_reference(ax: Axes, reference: Reference, parameter: Parameter, mark: str) -> None:
    mean, sd = reference.mean[parameter.name], 0.0
    if parameter.name in reference.cov:
        sd = abs(mean) * reference.cov[parameter.name]
    low, middle, high = along(parameter, np.array([mean - sd, mean, mean + sd]))
    bars = [[middle - low], [high - middle]] if sd else None
    level = ax.get_ylim()[1] * (0.94 - 0.07 * _MARKS.index(mark))
    ax.errorbar(
        [middle],
        [level],
        xerr=bars,
        fmt=mark,
        ms=4,
        mfc="white",
        mec=DATA,
        mew=0.9,
        ecolor=DATA,
        elinewidth=0.9,
        zorder=6,
    )


@styled
def pairs_figure(posterior: Posterior) -> Figure:
    """Draw every pair of parameters: draws above the diagonal, densities below, marginals on it."""
    chosen = pair_columns(posterior)
    posterior = seen_posterior(posterior)
    d = len(chosen)
    parameters = [posterior.space.parameters[i] for i in chosen]
    draws = posterior.flat[:, chosen]
    spans = [density.span(draws[:, i], p.prior) for i, p in enumerate(parameters)]
    left = 0.92  # room for ticks and titles of two lines
    side = min(2.1, (WIDTH - left - 1.0) / d)
    figure = canvas(left + d * side + 1.0, d * side + 0.8)
    cloud = _cloud(posterior)
    lows, highs = np.quantile(cloud[1], (0.05, 1.0))
    shades = Normalize(float(lows), float(highs))
    gap = 0.07
    for i in range(d):
        for j in range(d):
            ax = place(figure, left + j * side, 0.1 + i * side, side - gap, side - gap)
            if i == j:
                _draw_diagonal(ax, draws[:, i], parameters[i], spans[i])
            elif i < j:
                x, y = (cloud[0][:, chosen[k]] for k in (j, i))
                ax.scatter(x, y, c=cloud[1], s=3.0, lw=0, cmap=_LIKELY, norm=shades, rasterized=True)
            else:
                height = density.plane(draws[:, j], draws[:, i], spans[j], spans[i])
                norm = LogNorm(_FLOOR, 1.0, clip=True)
                extent = (*spans[j], *spans[i])
                ax.imshow(
                    height,
                    origin="lower",
                    extent=extent,
                    aspect="auto",
                    cmap=_DENSE,
                    norm=norm,
                    interpolation="bilinear",
                )
            _finish(ax, i, j, d, parameters, spans, side)
    right = left + d * side + 0.12
    bar = min(0.5 * d * side - 0.3, 2.2)
    _colour_bar(figure, (right, 0.1, 0.11, bar), ScalarMappable(shades, _LIKELY), "log-likelihood")
    bottom = 0.1 + d * side - gap - bar
    dense = ScalarMappable(LogNorm(_FLOOR, 1.0), _DENSE)
    _colour_bar(figure, (right, bottom, 0.11, bar), dense, "density / peak")
    return figure


def pair_columns(posterior: Posterior) -> list[int]:
    """Return the columns to draw: all, or the parameters that the data narrowed most."""
    narrowing = np.asarray(posterior.summary().column("narrowing"), dtype=float)
    return sorted(np.argsort(-narrowing, kind="stable")[:MOST].tolist())


def _cloud(posterior: Posterior) -> tuple[Array, Array]:
    """Return some two thousand draws and their log-likelihoods, the likeliest last, to be drawn on top."""
    n = len(posterior.flat)
    some = np.unique(np.linspace(0, n - 1, min(n, _CLOUD)).round().astype(int))
    likelihood = posterior.log_likelihood.ravel()[some]
    order = np.argsort(likelihood, kind="stable")
    return posterior.flat[some][order], likelihood[order]


def _draw_diagonal(ax: Axes, draws: Array, parameter: Parameter, span: tuple[float, float]) -> None:
    x, height = density.curve(draws, *span)
    top = float(height.max())
    ax.fill_between(*prior_curve(parameter, *span), color=PRIOR_FILL, lw=0)
    ax.fill_between(x, height, color=TOTAL, lw=0, zorder=2)
    ax.plot(x, height, color=POSTERIOR, lw=1.1, zorder=3)
    q025, q975 = np.quantile(draws, (0.025, 0.975))
    ax.hlines(1.16 * top, q025, q975, color=PARAMETERS, lw=5)
    ax.plot([draws.mean()], [1.16 * top], ls="", marker="|", ms=7, mew=1.4, color=DATA)
    ax.set_ylim(0, 1.32 * top)


def _finish(
    ax: Axes,
    i: int,
    j: int,
    d: int,
    parameters: Sequence[Parameter],
    spans: Sequence[tuple[float, float]],
    side: float,
) -> None:
    """Set limits; ticks and titles, with their power of ten, go to the outer axes only."""
    ax.set_xlim(*spans[j])
    ax.set_xticks([])
    if i == j:
        ax.spines["left"].set_visible(False)
    else:
        ax.set_ylim(*spans[i])
    ax.set_yticks([])
    if i == d - 1:
        _label(ax.xaxis, parameters[j], spans[j], side)
    if j == 0:
        if i > 0:
            _label(ax.yaxis, parameters[i], spans[i], side)
        else:
            ax.set_ylabel(short_title(parameters[i], spans[i], side))
        ax.yaxis.set_label_coords(-0.6 / side, 0.5)  # clear of ticks such as 0.0125


def _label(axis: Axis, parameter: Parameter, span: tuple[float, float], side: float) -> None:
    """Title an axis and choose ticks, at least two, whose labels stay clear of the neighbouring axes."""
    for most in (3, 4, 5, 6):
        label_parameter(axis, parameter, ticks=most if side < 1.6 else most + 1)
        ticks = axis.get_majorticklocs()
        place = (ticks - span[0]) / (span[1] - span[0])
        inside = (place > 0.09) & (place < 0.91)
        if inside.sum() > 1:
            break
    axis.set_ticks(ticks[inside])
    axis.set_label_text(short_title(parameter, span, side))


def short_title(parameter: Parameter, span: tuple[float, float], room: float) -> str:
    """Return the title of an axis in two lines at most: with the label, or with the name if that is too long."""
    out = exponent(parameter, *span)
    text = folded(scaled_title(parameter.title, out), room)
    if "…" not in text:
        return text
    return folded(scaled_title(replace(parameter, label="").title, out), room)


def _colour_bar(
    figure: Figure, box: tuple[float, float, float, float], shades: ScalarMappable, title: str
) -> None:
    ax = place(figure, *box)
    bar = figure.colorbar(shades, cax=ax)
    bar.outline.set_visible(False)
    if isinstance(shades.norm, LogNorm):
        bar.ax.yaxis.set_major_locator(FixedLocator([0.01, 0.1, 1.0]))
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        bar.ax.minorticks_off()
        ax.set_ylabel(title)
    else:
        label_axis(ax.yaxis, title, ticks=4)


def sparkline(draws: Array, parameter: Parameter) -> str:
    """Return a small SVG for a table: the posterior in blue inside the range of its prior in grey."""
    parameter = seen(parameter)
    draws = along(parameter, draws)
    low, high = density.span(draws, parameter.prior)
    wide = prior_range(parameter)
    left, right = min(low, wide[0]), max(high, wide[1])
    x, height = density.curve(draws, low, high)
    prior = prior_curve(parameter, left, right)
    parts = []
    for (at, tall), fill, level in ((prior, PRIOR_FILL, 11.0), ((x, height), POSTERIOR, 20.0)):
        some = np.unique(np.linspace(0, len(at) - 1, 48).round().astype(int))
        px = 150 * (at[some] - left) / (right - left)
        py = 22 - level * tall[some] / (float(tall.max()) or 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
        parts.append(f'<polygon points="{px[0]:.1f},22 {points} {px[-1]:.1f},22" fill="{fill}"/>')
    line = f'<path d="M0 22H150" stroke="{PRIOR}" stroke-width="0.8"/>'
    head = '<svg class="spark" viewBox="0 0 150 23" role="img" aria-label="posterior inside prior">'
    return f"{head}{''.join(parts)}{line}</svg>"


def marginal_numbers(posterior: Posterior) -> Table:
    """Return the densities drawn: parameter, abscissa, prior, posterior."""
    rows: list[tuple[str, float, float, float]] = []
    drawn = seen_posterior(posterior)
    for i, parameter in enumerate(posterior.space.parameters):
        law, draws = drawn.space.parameters[i], drawn.flat[:, i]
        x, height = physical(law, *density.curve(draws, *density.span(draws, law.prior)))
        prior = np.exp(np.asarray(parameter.prior.logpdf(x), dtype=float))
        rows += [
            (parameter.name, float(a), float(b), float(c)) for a, b, c in zip(x, prior, height, strict=True)
        ]
    return Table(("parameter", "x", "prior density", "posterior density"), tuple(rows))


def draw_numbers(posterior: Posterior) -> Table:
    """Return every draw and its log-likelihood, from which pairs and densities are drawn."""
    columns = (*posterior.space.names, "log likelihood", "log prior")
    return columns_table(
        columns, [*posterior.flat.T, posterior.log_likelihood.ravel(), posterior.log_prior.ravel()]
    )
