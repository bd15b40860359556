"""The shape of a study file, checked by pydantic; the only pydantic in the tree."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from tamis.errors import StudyError, nearest
from tamis.study.reader import Raw, drawn_from

Number = float | int
Scalar = float | int | str


class Strict(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PortTable(Strict):
    """One input of a program or a server."""

    default: Scalar | None = None
    unit: str = ""
    bounds: tuple[Number, Number] | list[Number] | None = None
    choices: list[str] | None = None
    kind: Literal["number", "choice", "file"] = "number"
    doc: str = ""


class ReadTable(Strict):
    """Where an output of a program is found: a column of a table, a key of a JSON file, numbers of the last line."""

    file: str
    format: Literal["csv", "table", "json", "last"] | None = None
    column: str | int | None = None
    key: str | None = None
    after: str | None = None
    unit: str = ""
    doc: str = ""


class CommandTable(Strict):
    """An external program: files to fill, what to run, what to read back."""

    run: list[str] | str
    name: str = ""
    version: str = ""
    shell: bool = False
    templates: dict[str, str] = {}
    copy_files: list[str] = Field(default=[], alias="copy")
    inputs: dict[str, PortTable] = Field(min_length=1)
    outputs: dict[str, ReadTable] = Field(min_length=1)
    exit_codes: list[int] = [0]
    keep: bool = False


class VectorTable(Strict):
    """Where an output of a server is found: a vector of its answer, or one item of it, counted from 1."""

    vector: int = Field(default=1, ge=1)
    item: int | None = Field(default=None, ge=1)
    unit: str = ""
    doc: str = ""


class HttpTable(Strict):
    """A model served over HTTP in the UM-Bridge protocol."""

    url: str
    name: str
    version: str
    inputs: dict[str, PortTable] = Field(min_length=1)
    outputs: dict[str, VectorTable] = Field(min_length=1)
    config: dict[str, Any] = {}
    retries: int = Field(default=3, ge=0)


class CheapTable(Strict):
    """A cheaper simulator of the same outputs, or the same one with other inputs, and how often it is run."""

    simulator: str | None = None
    inputs: dict[str, Scalar] = {}
    n: int = Field(ge=4)
    cost: Number | None = Field(default=None, gt=0, lt=1)


class ModelTable(Strict):
    """The simulator, the inputs held fixed, and how long one run may take and how much it may return."""

    simulator: str | None = None
    command: CommandTable | None = None
    http: HttpTable | None = None
    inputs: dict[str, Scalar] = {}
    max_output: Number = Field(default=256, gt=0)
    timeout: Number | None = Field(default=None, gt=0)
    memory: str | None = Field(default=None, pattern=r"^\s*[0-9.]+\s*([kMGT]?B)\s*$")
    keep: Literal["all", "observed"] = "all"
    cheap: list[CheapTable] = []


class ParameterTable(BaseModel):
    """One unknown: a prior law, its parameters, a unit and a label."""

    model_config = ConfigDict(extra="allow", strict=True)
    prior: str
    unit: str = ""
    label: str = ""


class FromTable(Strict):
    """Posterior draws of other studies instead of priors."""

    studies: list[str] = Field(alias="from", min_length=1)
    weights: Literal["evidence", "equal"] = "evidence"
    draws: int = Field(default=500, ge=2)
    replicates: int = Field(default=1, ge=1)
    reweight: Literal["none", "posterior"] = "none"


class CorrelationTable(Strict):
    """The correlation of two unknowns' normal scores."""

    between: tuple[str, str] | list[str]
    value: float = Field(gt=-1, lt=1)


class NoiseTable(Strict):
    """One source of error; each kind takes ``sd`` or ``variance``, a number or a parameter's name."""

    kind: Literal["known", "gaussian", "relative", "correlated", "covariance", "lowrank"]
    sd: Scalar | None = None
    variance: Scalar | None = None
    length: Scalar | None = None
    of: Literal["data", "model"] | None = None
    matrix: str | list[list[Number]] | None = None
    scale: Scalar | None = None
    reference: str | None = None
    nominal: dict[str, Scalar] | None = None
    components: int | None = Field(default=None, ge=1)
    residual: bool | None = None


class GridTable(Strict):
    """Equally spaced numbers, or numbers in a constant ratio."""

    start: Number
    stop: Number
    n: int = Field(ge=1)
    spacing: Literal["linear", "log"] = "linear"


class ObserveTable(Strict):
    """What is observed, how the model gives it, where the measurements are, what error they carry."""

    output: str
    how: str = "value"
    data: str | None = None
    x: str | None = None
    y: str | list[str] | None = None
    sd: Scalar | None = None
    times: GridTable | list[Number] | None = None
    along: str = "t"
    also: list[str] = []
    bands: GridTable | list[Number] | None = None
    filter: Number | None = Field(default=None, gt=0)
    extend: Literal["none", "hold"] = "none"
    damping: Number | None = None
    noise: NoiseTable | list[NoiseTable] | None = None
    label: str = ""
    group: str = ""
    limit: Number | None = None


class SyntheticTable(Strict):
    """A numerical experiment instead of data: one run of the simulator plus drawn errors."""

    inputs: dict[str, Scalar]
    noise: NoiseTable | list[NoiseTable] | None = None
    seed: int = 0


class ExperimentTable(Strict):
    """One test, or a table with one test a row."""

    name: str = ""
    table: str | None = None
    use: Literal["calibrate", "validate"] = "calibrate"
    conditions: dict[str, Scalar] = {}
    observe: list[ObserveTable] = Field(min_length=1)
    synthetic: SyntheticTable | None = None
    emulate: bool = False
    draws: int | None = Field(default=None, ge=1)


class SweepTable(Strict):
    """One input varied over a range of conditions."""

    input: str
    start: Number | None = None
    stop: Number | None = None
    n: int | None = Field(default=None, ge=2)
    values: list[Number] | None = None


class PredictTable(Strict):
    """Conditions nobody measured, possibly from part of the posterior only."""

    name: str
    conditions: dict[str, Scalar] = {}
    sweep: SweepTable | None = None
    where: dict[str, list[Number]] = {}
    draws: int | None = Field(default=None, ge=1)
    emulate: bool = False
    observe: list[ObserveTable] = Field(min_length=1)


class NextTable(Strict):
    """An experiment that might be done next, or a range of them."""

    name: str
    conditions: dict[str, Scalar] = {}
    sweep: SweepTable | None = None
    emulate: bool = False
    draws: int | None = Field(default=None, ge=50)
    observe: list[ObserveTable] = Field(min_length=1)


class DesignTable(Strict):
    """The points at which the simulator is run to see what the prior implies."""

    method: Literal["sobol", "halton", "lhs", "maximin", "grid"] = "lhs"
    n: int = Field(default=64, ge=1)
    replicates: int = Field(default=1, ge=1)
    statistic: Literal["mean", "sd", "quantile"] | None = None
    level: Number | None = Field(default=None, gt=0, lt=1)


class EnrichTable(Strict):
    """More runs where the surrogate needs them: where it errs most, or where the posterior lives."""

    where: Literal["error", "posterior"] = "error"
    q2: Number = Field(default=0.99, lt=1)
    budget: int = Field(ge=1)
    batch: int = Field(default=10, ge=1)


class SurrogateTable(Strict):
    """What stands in for the simulator, and how good it must be."""

    method: Literal["none", "pce", "kriging"] = "none"
    target: Literal["observables", "loglike"] = "observables"
    min_q2: Number = Field(default=0.95, lt=1)
    energy: Number = Field(default=0.9999, gt=0, le=1)
    degree: int | None = Field(default=None, ge=1, le=20)
    hyperbolic: Number | None = Field(default=None, ge=0.1, le=1)
    kernel: Literal["matern32", "matern52", "squared_exponential"] | None = None
    trend: Literal["constant", "linear", "quadratic"] | None = None
    nugget: Number | None = Field(default=None, ge=0)
    failures: Literal["weigh", "ignore"] = "weigh"
    enrich: EnrichTable | None = None


class SensitivityTable(Strict):
    """Which inputs the variance of the outputs comes from, and by which methods."""

    methods: list[Literal["sobol", "regression", "sampling", "fosm"]] = ["sobol", "regression"]
    bootstrap: int = Field(default=200, ge=20)
    n: int = Field(default=4096, ge=64)


class PropagateTable(Strict):
    """Predicted numbers as random variables: draws until their mean is known, moments, fitted laws."""

    tolerance: Number = Field(default=0.05, gt=0)
    batch: int = Field(default=100, ge=10)
    most: int = Field(default=10_000, ge=20)
    fosm: bool = True
    surface: bool = True
    laws: list[str] = ["normal", "lognormal", "gamma", "weibull", "gumbel"]


class LawTable(BaseModel):
    """The law of an uncertain capacity."""

    model_config = ConfigDict(extra="allow", strict=True)
    law: str


class FragilityTable(Strict):
    """The probability that a predicted number exceeds its limit, over the intensity of the event."""

    predict: str | None = None
    intensity: str | list[str]
    demand: str | None = None
    limit: Number | LawTable | None = None
    below: bool = False
    random: list[str] = []
    repeats: int | None = Field(default=None, ge=1)
    level: Number = Field(default=0.9, gt=0, lt=1)


class ReplayTable(Strict):
    """One run that the report draws: of which test or prediction, coloured by what, and which groups like glass."""

    of: str | None = None
    at: Number | None = None
    field: str | None = None
    through: list[str] = []


class InferenceTable(Strict):
    """The sampler, and whether all data are taken together or each part of them alone."""

    method: Literal["tmcmc", "metropolis", "mct"] | None = None
    n: int | None = Field(default=None, ge=16)
    sweeps: int | None = Field(default=None, ge=4)
    chains: int | None = Field(default=None, ge=4)
    draws: int | None = Field(default=None, ge=20)
    trajectories: int | None = Field(default=None, ge=2)
    split: Literal["none", "experiment", "group"] = "none"
    on_crash: Literal["stop", "reject"] = "stop"


class ClusterTable(Strict):
    """The Dask scheduler whose workers do the runs."""

    address: str


class ReferenceTable(Strict):
    """Published or exact figures to be shown beside ours."""

    source: str
    log_evidence: Number | None = None
    mean: dict[str, Number] = {}
    cov: dict[str, Number] = {}


Unknowns = Annotated[  # tags in capitals: places of faults leave them out
    Annotated[FromTable, Tag("From")]
    | Annotated[dict[str, ParameterTable], Field(min_length=1), Tag("Priors")],
    Discriminator(lambda given: "From" if drawn_from(given) is not None else "Priors"),
]


class StudyFile(Strict):
    """A whole study file."""

    tamis: Literal[1]
    title: str = ""
    seed: int = Field(default=1, ge=0)
    model: ModelTable
    parameters: Unknowns
    correlation: list[CorrelationTable] = []
    experiment: list[ExperimentTable] = []
    design: DesignTable = DesignTable()
    surrogate: SurrogateTable = SurrogateTable()
    sensitivity: SensitivityTable | None = None
    propagate: PropagateTable | None = None
    fragility: FragilityTable | None = None
    replay: ReplayTable | None = None
    inference: InferenceTable = InferenceTable()
    predict: list[PredictTable] = []
    next: list[NextTable] = []
    cluster: ClusterTable | None = None
    reference: list[ReferenceTable] = []


def validate(raw: Raw) -> StudyFile:
    """Check the tables of a study file; every fault is one line naming the field and the remedy."""
    try:
        return StudyFile.model_validate(raw.tables)
    except ValidationError as error:
        faults = [f for f in error.errors() if not _echo(f, error.errors())]
        lines = list(dict.fromkeys(_explain(raw, fault) for fault in faults))
        raise StudyError("\n".join(f"{raw.path.name}: {line}" for line in lines)) from None


def _echo(fault: Any, faults: list[Any]) -> bool:
    """Say whether a fault only repeats, for another shape the value might have had, that something inside is wrong."""
    inside = field_name(tuple(fault["loc"])) + "."
    wrong_shape = fault["type"] in (
        "list_type",
        "dict_type",
        "model_type",
        "float_type",
        "int_type",
        "string_type",
    )
    return wrong_shape and any(field_name(tuple(f["loc"])).startswith(inside) for f in faults)


def field_name(location: tuple[Any, ...]) -> str:
    """Write a place in the file as ``experiment[1].observe[0].noise``."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part}]"
        elif not (part[:1].isupper() or "[" in part or part in ("float", "int", "str")):
            name += f".{part}" if name else part
    return name


def _explain(raw: Raw, fault: Any) -> str:
    location = tuple(fault["loc"])
    where = field_name(location)
    beside = location[:2] == ("parameters", "From") and len(location) == 3
    if beside and fault["type"] == "extra_forbidden" and isinstance(fault.get("input"), dict):
        return (
            f"{where}: a study that draws `from` the posteriors of others has no priors of its own; remove it"
        )
    if location[:2] == ("parameters", "Priors") and len(location) == 3 and fault["type"] == "model_type":
        message = 'expected a table, as in { prior = "uniform", low = 0, high = 1 }'
        meant = nearest(str(location[2]), ["from"])
        return f"{where}: {message}{meant if 'did you mean' in meant else ''}"
    if fault["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        return f'{where}: unknown key "{location[-1]}"{nearest(str(location[-1]), known)}'
    if fault["type"] == "missing":
        return f"{where}: missing; add {'tamis = 1' if where == 'tamis' else 'it'}"
    found = fault.get("input")
    shown = f", found {found!r}" if isinstance(found, (str, int, float)) else ""
    if fault["type"] == "literal_error":
        expected = fault["ctx"]["expected"].replace("'", '"')
        words = [w.strip(' "') for w in expected.replace(" or ", ",").split(",")]
        return f"{where}: expected {expected}{shown}{nearest(str(found), words) if isinstance(found, str) else ''}"
    message = str(fault["msg"])
    return f"{where}: {message[0].lower()}{message[1:]}{shown}"


def _known_keys(location: tuple[Any, ...]) -> list[str]:
    """Return the keys allowed in the table at this place, following the models' annotations."""
    schema = StudyFile.model_json_schema()
    node: dict[str, Any] = schema
    for part in location:
        if isinstance(part, str) and part[:1].isupper():  # which of several shapes a table has
            wanted = f"{part}Table"
            node = next((o for o in _options(schema, node) if o.get("title") == wanted), node)
            continue
        options = [_resolve(schema, option) for option in _options(schema, node)]
        if isinstance(part, int):
            node = next((o["items"] for o in options if "items" in o), {})
        elif any(part in o.get("properties", {}) for o in options):
            node = next(o["properties"][part] for o in options if part in o.get("properties", {}))
        else:
            node = next(
                (
                    o["additionalProperties"]
                    for o in options
                    if isinstance(o.get("additionalProperties"), dict)
                ),
                node,
            )
    return sorted(
        {key for option in _options(schema, node) for key in _resolve(schema, option).get("properties", {})}
    )


def _options(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    node = _resolve(schema, node)
    return [_resolve(schema, option) for option in node.get("anyOf", node.get("oneOf", [node]))]


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else node
