"""From the tables of a study file to the objects of tamis.

Names resolved, files read, roles of parameters deduced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.analysis.propagation import LAWS as FITTED
from tamis.analysis.statistic import FEWEST
from tamis.errors import StudyError, TamisError, nearest
from tamis.files import load_arrays
from tamis.interfaces import whole_of
from tamis.observables import SCALARS
from tamis.results.study import Reference
from tamis.simulation import Simulator, batched, described, find
from tamis.space import Parameter, Space
from tamis.study.definition import Fidelity, Origin, Sampler, Settings, Study
from tamis.study.fidelities import fidelities
from tamis.study.fragilities import asked_fragility
from tamis.study.keeping import observing, reduced
from tamis.study.laws import make_law
from tamis.study.noises import Places
from tamis.study.origins import adopted, check_chain, check_replicates
from tamis.study.reader import Raw, sources
from tamis.study.replayed import asked_replay
from tamis.study.schema import FromTable, ParameterTable, StudyFile, validate
from tamis.study.series import Builder, Series
from tamis.study.stages.table import up_to_date
from tamis.types import Array, Inputs

_FEWEST_RUNS = 3  # to which a surrogate is fitted
_LARGEST_BATCH = 250  # of an enrichment: points chosen one by one among some thousand candidates


_OWN = {"tmcmc": ("n", "sweeps"), "metropolis": ("chains", "draws"), "mct": ("trajectories", "draws")}


def fault(study: Study) -> _Fault:
    """Return what makes errors that name the file of a study."""
    return _Fault(study.path.name)


def _bytes(fail: _Fault, text: str | None) -> float | None:
    """Return a size as the file writes it, "8 GB", in bytes."""
    if text is None:
        return None
    number, unit = text.strip().rstrip("kMGTB"), text.strip().lstrip("0123456789. ")
    try:
        size = float(number) * 1000.0 ** "BkMGT".index(unit[0])
    except ValueError:
        size = 0.0
    if not size > 0:
        raise fail("model.memory", f'expected a size such as "8 GB", found "{text}"')
    return size


def build(raw: Raw) -> Study:
    """Build a study from its parsed file."""
    file = validate(raw)
    fail = _Fault(raw.path.name)
    simulator = _simulator(fail, raw)
    fixed = _fixed(fail, raw.base, simulator, file.model.inputs)
    origins: tuple[Origin, ...] = ()
    if isinstance(file.parameters, FromTable):
        check_chain(fail, file, file.parameters)
        studies = [build(source) for source in sources(raw)]
        laws, carried, origins = adopted(fail, raw, file, simulator, studies)
        held = {name for name in laws if all(name in origin.held for origin in origins)}
        space, fixed = _space(fail, file, laws, simulator, held=held), {**carried, **fixed}
    else:
        laws = file.parameters
        space = _space(fail, file, laws, simulator)
    for name in file.model.inputs:
        if name in space.names:
            drawn = "is drawn from the posteriors of other studies; remove it here"
            raise fail(
                f"model.inputs.{name}", drawn if origins else "is also a parameter; remove one of the two"
            )
    places = Places(_known(raw))
    series = Builder(fail, raw, simulator, space, fixed, places).series(file)
    _no_idle_parameter(fail, space, simulator, series)
    if not (origins and series) and not any(s.use in ("calibrate", "predict") for s in series):
        raise fail("experiment", "a study needs at least one [[experiment]] or one [[predict]]")
    settings = Settings(
        _sampler(fail, file),
        file.inference.on_crash,
        None if file.model.timeout is None else float(file.model.timeout),
        float(file.model.max_output),
        _bytes(fail, file.model.memory),
    )
    _consistent(fail, file, simulator, space, series)
    cheap = fidelities(fail, raw, file, simulator, space, series)
    if origins:
        check_replicates(fail, file, simulator, fixed, series)
    if file.model.keep == "observed":
        cheap = tuple(_lean(level) for level in cheap)
        lean = reduced(simulator, series)
        simulator, series = lean, observing(lean, series)
    references = tuple(_reference(fail, i, r, space) for i, r in enumerate(file.reference))
    title = file.title or raw.path.stem
    return Study(
        raw.path.resolve(),
        title,
        file.seed,
        simulator,
        space,
        series,
        fixed,
        settings,
        file,
        references,
        raw,
        raw.results.resolve(),
        open=tuple(places.open),
        origins=origins,
        cheap=cheap,
        laws=laws,
    )


def _lean(level: Fidelity) -> Fidelity:
    """Return a cheaper simulator that keeps the observed numbers only."""
    lean = reduced(level.simulator, level.series)
    return replace(level, simulator=lean, series=observing(lean, level.series))


def _known(raw: Raw) -> Mapping[str, Array]:
    """Return the numbers of numerical experiments and nominal runs, if there are any that count."""
    if not up_to_date(raw, "synthetic").get("synthetic"):
        return {}
    return load_arrays(raw.results / "synthetic.npz")


def with_numbers(study: Study, numbers: Mapping[str, Array]) -> Study:
    """Return a study with the numbers of its numerical experiments and nominal runs; without them it is open."""
    fail, places = _Fault(study.path.name), Places(numbers)
    builder = Builder(fail, study.raw, whole_of(study.simulator), study.space, study.fixed, places)
    series = observing(study.simulator, builder.series(study.tables))
    if numbers and places.open:
        raise TamisError(
            f"{study.path.name}: {places.open[0].field}: {places.open[0].what} has left no numbers"
        )
    return replace(study, series=series, open=tuple(places.open))


def _sampler(fail: _Fault, file: StudyFile) -> Sampler:
    """Return the sampler with its numbers, refusing those of others."""
    table = file.inference
    emulated = file.surrogate.target == "loglike"
    method = table.method or ("mct" if emulated else "tmcmc")
    if method == "mct" and not emulated:
        message = 'samples trajectories of a surrogate of the log-likelihood: [surrogate] target = "loglike"'
        raise fail("inference.method", f'"mct" {message}')
    given = {key: getattr(table, key) for keys in _OWN.values() for key in keys}
    given = {key: value for key, value in given.items() if value is not None}
    for key in given:
        if key not in _OWN[method]:
            owner = " or ".join(f'"{name}"' for name, keys in _OWN.items() if key in keys)
            raise fail(f"inference.{key}", f'only method = {owner} has it; this study samples by "{method}"')
    return Sampler(method, **given)


def _consistent(
    fail: _Fault, file: StudyFile, simulator: Simulator, space: Space, series: tuple[Series, ...]
) -> None:
    """Refuse settings that the chosen methods do not have."""
    table = file.surrogate
    own = {"pce": ("degree", "hyperbolic"), "kriging": ("kernel", "trend", "nugget")}
    for method, keys in own.items():
        for key in keys:
            if getattr(table, key) is not None and table.method != method:
                raise fail(f"surrogate.{key}", f'only method = "{method}" has it, found "{table.method}"')
    if table.target == "loglike":
        _loglike_consistent(fail, file, series)
    if file.inference.split != "none" and len({s.part for s in series if s.part}) < 2:
        what = "experiment" if file.inference.split == "experiment" else "group of observations"
        raise fail("inference.split", f"there is only one {what} to calibrate with; nothing to split")
    if file.next and not any(s.use == "calibrate" for s in series):
        raise fail("next", "there are no data, hence no posterior that an experiment could narrow")
    if file.design.replicates > 1 and "seed" not in simulator.inputs:
        message = f"{simulator.name} has no input called seed, so that all runs at a point would be the same"
        raise fail("design.replicates", message)
    _statistic_consistent(fail, file)
    if file.fragility is not None:
        asked_fragility(
            fail, file.fragility, simulator, space, series, drawn=isinstance(file.parameters, FromTable)
        )
    if file.replay is not None:
        asked_replay(fail, file.replay, simulator, series)
    if table.method != "none" and file.design.n < _FEWEST_RUNS:
        raise fail("design.n", f"a surrogate needs at least {_FEWEST_RUNS} runs, found {file.design.n}")
    if table.enrich is not None:
        if table.method == "none":
            raise fail("surrogate.enrich", 'there is no surrogate to enrich; method = "pce" or "kriging"')
        if table.enrich.q2 < table.min_q2:
            found = f"{table.enrich.q2:g} is below min_q2 = {table.min_q2:g}"
            raise fail(
                "surrogate.enrich.q2", f"{found}; enrichment would end with a surrogate too poor to use"
            )
        if table.enrich.batch > _LARGEST_BATCH:
            raise fail(
                "surrogate.enrich.batch", f"expected at most {_LARGEST_BATCH}, found {table.enrich.batch}"
            )
        if table.enrich.where == "posterior" and not any(s.use == "calibrate" for s in series):
            raise fail("surrogate.enrich.where", 'there are no data, hence no posterior; use "error"')
    if file.sensitivity is not None and not any(s.designed for s in series):
        raise fail(
            "sensitivity",
            "there is no design to read it from: no [[experiment]], and no emulated [[predict]]",
        )
    if file.sensitivity is not None and (table.method == "none" or table.target == "loglike"):
        needs = {
            name for s in series for e in s.experiments for o in e.observations for name in o.observable.needs
        }
        if not batched(simulator, needs) and {"sobol", "sampling"} & set(file.sensitivity.methods):
            message = (
                "Sobol indices need a surrogate of the observables or a simulator with a batch interface"
            )
            raise fail("sensitivity.methods", f'{message}; methods = ["regression"] needs neither')
    if file.sensitivity is not None and file.sensitivity.n.bit_count() != 1:
        raise fail("sensitivity.n", f"expected a power of two, found {file.sensitivity.n}")
    if not (isinstance(file.parameters, FromTable) or any(s.use == "calibrate" for s in series)):
        for i, s in enumerate(s for s in series if s.use == "predict"):
            if s.where:
                raise fail(f"predict[{i}].where", "there are no data, hence no posterior to take a part of")
    if file.propagate is None:
        return
    if file.propagate.most < 2 * file.propagate.batch:
        message = f"expected at least two batches of {file.propagate.batch}, found {file.propagate.most}"
        raise fail("propagate.most", message)
    ahead = [s for s in series if s.use == "predict"]
    if not any(o.coord is None for s in ahead for e in s.experiments for o in e.observations):
        message = "needs a [[predict]] that observes single numbers: how = "
        raise fail("propagate", message + ", ".join(SCALARS))
    for i, law in enumerate(file.propagate.laws):
        if law not in FITTED:
            raise fail(f"propagate.laws[{i}]", f'no law "{law}" to fit{nearest(law, FITTED)}')


def _statistic_consistent(fail: _Fault, file: StudyFile) -> None:
    """Refuse a statistic over replicates that nobody would use, or that single runs would be mixed with."""
    design = file.design
    if design.statistic is None:
        if design.level is not None:
            raise fail("design.level", 'is that of statistic = "quantile"; remove it')
        return
    if (design.statistic == "quantile") != (design.level is not None):
        raise fail("design.level", "a quantile has one, for instance 0.8, and nothing else has")
    if design.replicates < FEWEST:
        message = f"a statistic needs at least {FEWEST} runs of each point, found {design.replicates}"
        raise fail("design.replicates", message)
    if file.surrogate.method == "none" or file.surrogate.target == "loglike":
        message = 'is what a surrogate of the observables is fitted to; surrogate.method = "pce" or "kriging"'
        raise fail("design.statistic", message)
    if file.sensitivity and "fosm" in file.sensitivity.methods:
        raise fail(
            "sensitivity.methods", '"fosm" differentiates single runs, not a statistic of them; remove it'
        )


def _loglike_consistent(fail: _Fault, file: StudyFile, series: tuple[Series, ...]) -> None:
    """Refuse what a surrogate of the log-likelihood cannot do."""
    if file.surrogate.method != "kriging":
        message = f'a surrogate of the log-likelihood is Kriging, found method = "{file.surrogate.method}"'
        raise fail("surrogate.target", message)
    if file.surrogate.enrich is not None and file.surrogate.enrich.where != "posterior":
        raise fail("surrogate.enrich.where", 'a log-likelihood is enriched where = "posterior"')
    if "energy" in file.surrogate.model_fields_set:
        message = "is for principal components of long signals, and a log-likelihood is one number; remove it"
        raise fail("surrogate.energy", message)
    if "failures" in file.surrogate.model_fields_set:
        message = (
            "is for surrogates of observables; runs that failed are left out of a log-likelihood's: remove it"
        )
        raise fail("surrogate.failures", message)
    tests = [s for s in series if s.use == "calibrate"]
    if not tests:
        raise fail("surrogate.target", "there are no data, hence no likelihood")
    for one in series:
        for observation in one.experiments[0].observations:
            if observation.noise.reads:
                told = (
                    f"the error of {one.name}, {observation.label} has unknown {observation.noise.reads[0]}"
                )
                remedy = 'state its size, or identify it from reference tests (kind = "lowrank")'
                raise fail(
                    "surrogate.target", f"{told}; a surrogate of the log-likelihood needs it known: {remedy}"
                )
    if file.inference.split != "none":
        raise fail(
            "inference.split", "each part would need a surrogate of its own; split the observables' instead"
        )


def _simulator(fail: _Fault, raw: Raw) -> Simulator:
    model = raw.table("model")
    given = [kind for kind in ("simulator", "command", "http") if kind in model]
    if len(given) != 1:
        message = (
            'name one simulator: simulator = "file.py:function", or a table [model.command] or [model.http]'
        )
        raise fail("model", f"{message}; found {' and '.join(given) or 'none'}")
    kind = given[0]
    try:
        found: Simulator = find(described(kind, model[kind], raw.base), raw.base)
    except StudyError as error:
        raise fail(f"model.{kind}", str(error)) from error
    return found


class _Fault:
    """Make errors that name the file and the field."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, field: str, message: str) -> StudyError:
        return StudyError(f"{self.file}: {field}: {message}")


def _fixed(fail: _Fault, base: Path, simulator: Simulator, inputs: Mapping[str, Any]) -> Inputs:
    fixed: dict[str, Any] = {}
    for name, value in inputs.items():
        if name not in simulator.inputs:
            message = f'simulator {simulator.name} has no input "{name}"{nearest(name, simulator.inputs)}'
            raise fail(f"model.inputs.{name}", message)
        fixed[name] = str((base / str(value)).resolve()) if simulator.inputs[name].kind == "file" else value
    return fixed


def _space(
    fail: _Fault,
    file: StudyFile,
    laws: Mapping[str, ParameterTable],
    simulator: Simulator,
    *,
    held: Collection[str] | None = None,
) -> Space:
    """Return the unknowns; their laws have to stay within what the simulator takes.

    With draws of other studies' posteriors the laws are only told; ``held`` is what those studies held fixed.
    """
    parameters = tuple(_parameter(fail, name, table) for name, table in laws.items())
    for parameter in parameters:
        port = simulator.inputs.get(parameter.name)
        where = f"parameters.{parameter.name}"
        if port is None:
            continue
        if port.kind != "number":
            raise fail(
                where,
                f"input {port.name} of {simulator.name} is a {port.kind}, not a number; it cannot be sampled",
            )
        if isinstance(port.default, int) and parameter.name not in (held or ()):
            message = f"input {port.name} of {simulator.name} takes whole numbers, as its default {port.default} is one"
            if held is None:
                message += ", and a continuous prior gives others: set it in [model.inputs]; or,"
            else:
                message += ", and posterior draws are others;"
            raise fail(where, f"{message} if it may be any number, write {port.default}.0 in the simulator")
        if parameter.unit and port.unit and parameter.unit != port.unit:
            message = f'unit "{parameter.unit}", but {simulator.name} takes "{port.unit}"; convert the prior'
            raise fail(f"{where}.unit", message)
        if port.bounds and held is None:
            low, high = (float(v) for v in parameter.prior.ppf(np.array([0.0, 1.0])))
            if low < port.bounds[0] - 1e-12 * abs(low) or high > port.bounds[1] + 1e-12 * abs(high):
                message = f"the prior reaches from {low:g} to {high:g}, outside the {list(port.bounds)}"
                raise fail(where, f"{message} that {simulator.name} takes; narrow or cut it (truncnormal)")
    units = {
        p.name: p.unit or (simulator.inputs[p.name].unit if p.name in simulator.inputs else "")
        for p in parameters
    }
    parameters = tuple(Parameter(p.name, p.prior, units[p.name], p.label) for p in parameters)
    return Space(parameters, _correlation(fail, file, [p.name for p in parameters]))


def _parameter(fail: _Fault, name: str, table: ParameterTable) -> Parameter:
    where = f"parameters.{name}"
    prior = make_law(fail, where, "prior", table.prior, table.model_extra or {}, ("unit", "label"))
    return Parameter(name, prior, table.unit, table.label)


def _correlation(fail: _Fault, file: StudyFile, names: list[str]) -> Array | None:
    if not file.correlation:
        return None
    matrix = np.eye(len(names))
    for i, pair in enumerate(file.correlation):
        for name in pair.between:
            if name not in names:
                raise fail(f"correlation[{i}].between", f'no parameter "{name}"{nearest(name, names)}')
        if len(set(pair.between)) != 2:
            raise fail(f"correlation[{i}].between", "expected two different parameters")
        a, b = (names.index(name) for name in pair.between)
        matrix[a, b] = matrix[b, a] = pair.value
    return matrix


def _no_idle_parameter(fail: _Fault, space: Space, simulator: Simulator, series: tuple[Series, ...]) -> None:
    read_by_noise = {n for s in series for e in s.experiments for o in e.observations for n in o.noise.reads}
    for name in space.names:
        if name not in simulator.inputs and name not in read_by_noise:
            message = f"read by nobody: neither an input of {simulator.name} nor named by an error model"
            raise fail(f"parameters.{name}", message + nearest(name, simulator.inputs))


def _reference(fail: _Fault, i: int, table: Any, space: Space) -> Reference:
    for key in ("mean", "cov"):
        for name in getattr(table, key):
            if name not in space.names:
                raise fail(
                    f"reference[{i}].{key}.{name}", f'no parameter "{name}"{nearest(name, space.names)}'
                )
    return Reference(table.source, table.log_evidence, dict(table.mean), dict(table.cov))
