"""Partitioned integration against exact, monolithic and published answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError
from tamis.sim.common.impulses import Impulses, from_receptances, impulse_responses
from tamis.sim.common.partitioned import History, integrate, multiplier_matrix, prepare
from tamis.sim.common.subdomains import Subdomain, assembled, share_mass


def chain(n: int, mass: float, k: float, *, fixed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return masses and stiffness of a chain, whose first mass may hang on a fixed point."""
    stiffness = np.zeros((n, n))
    for i in range(n - 1):
        stiffness[i : i + 2, i : i + 2] += k * np.array([[1, -1], [-1, 1]])
    stiffness[0, 0] += k * fixed
    return np.full(n, mass), stiffness


def two_chains(scheme: str = "explicit", *, fine: bool = True) -> list[Subdomain]:
    """Return the numerical chain N, held at one end, and the physical chain P at the other."""
    (mn, kn), (mp, kp) = chain(4, 100.0, 4e5, fixed=True), chain(3, 80.0, 2e5, fixed=False)
    return [
        Subdomain("N", mn, kn, {"joint": 3}, rayleigh=(0.0, 1e-3), pattern=-mn),
        Subdomain("P", mp, kp, {"joint": 0}, rayleigh=(0.0, 1e-3), pattern=-mp, scheme=scheme, fine=fine),
    ]


def ground(t: np.ndarray) -> np.ndarray:
    return np.asarray(3.0 * np.sin(7.0 * t) * np.exp(-0.3 * t))


def shake(
    parts: Sequence[Subdomain], dt: float, ss: int = 1, span: float = 5.0, **options: object
) -> History:
    signal = ground(dt / ss * np.arange(round(span / dt) * ss + 1))
    return integrate(parts, signal, dt, subcycling=ss, **options)  # type: ignore[arg-type]


def off(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def hardening(k: float) -> Subdomain:
    """Return a mass on a hysteretic spring: elastic-plastic with 10 % hardening, yielding at 2 mm."""
    slip = 0.0

    def restoring(u: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        nonlocal slip
        slip = min(max(slip, u[0] - 2e-3), u[0] + 2e-3)
        return np.array([0.1 * k * u[0] + 0.9 * k * (u[0] - slip)])

    mass = np.array([60.0])
    return Subdomain("S", mass, np.array([[k]]), {"joint": 0}, restoring=restoring, pattern=-mass)


@pytest.fixture(scope="module")
def converged() -> np.ndarray:
    """Return the displacement of the joint every 20 ms by a step forty times shorter than the coarsest measured."""
    fine = shake([assembled(two_chains("implicit"))], 2.5e-3 / 40, every=320)
    return fine.u["whole"][:, 3]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "ss", "order"), [("gc", 1, 2.0), ("gc", 5, 1.0), ("pm", 1, 2.0)])
def test_observed_orders(method: str, ss: int, order: float, converged: np.ndarray) -> None:
    # implicit N, explicit P: second order without sub-cycling, first with (Gravouil & Combescure 2001)
    runs = [shake(two_chains(), dt, ss, method=method, every=round(0.02 / dt)) for dt in (2.5e-3, 1.25e-3)]
    errors = [off(run.u["N"][:, 3], converged) for run in runs]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)
    assert np.log2(runs[0].drift / runs[1].drift) == pytest.approx(2.0, abs=0.1)  # beta dt^2 a
    for run in runs:
        assert run.gap <= 1e-12 * np.abs(run.v["N"]).max()


def test_gc_with_one_scheme_is_the_monolithic_solution() -> None:
    parts = two_chains("implicit")
    apart, whole = shake(parts, 2.5e-3, span=1.0), shake([assembled(parts)], 2.5e-3, span=1.0)
    assert off(apart.u["N"], whole.u["whole"][:, :4]) < 1e-10
    assert off(apart.v["P"], whole.v["whole"][:, [3, 4, 5]]) < 1e-10
    assert apart.drift < 1e-12 * np.abs(apart.u["N"]).max()


def test_gc_of_a_hysteretic_part_is_the_monolithic_operator_splitting() -> None:
    k = 1e5
    parts = [two_chains()[0], hardening(k)]
    apart = shake(parts, 2.5e-3, span=2.0)
    whole = shake([assembled([two_chains()[0], hardening(k)])], 2.5e-3, span=2.0)
    assert off(apart.u["N"], whole.u["whole"][:, :4]) < 1e-10
    linear = shake([two_chains()[0], replace(hardening(k), restoring=None)], 2.5e-3, span=2.0)
    assert off(linear.u["N"], apart.u["N"]) > 0.1  # it did yield


def test_velocities_agree_and_the_interface_dissipates() -> None:
    # a theorem for GC: the pseudo-energy of the interface is -ss/dt_N [sum H dL^2 - H (sum dL)^2/ss] <= 0
    sub_cycled = shake(two_chains(), 2.5e-3, 5, span=1.0)
    assert sub_cycled.gap <= 1e-12 * np.abs(sub_cycled.v["N"]).max()
    assert sub_cycled.energy.max() <= 0.0
    assert sub_cycled.energy.min() < -1e-6
    same_step = shake(two_chains(), 2.5e-3, 1, span=1.0)
    scale = np.abs(np.diff(same_step.v["N"][:, 3]) * np.diff(same_step.multipliers["N"][:, 0])).max() / 2.5e-3
    assert np.abs(same_step.energy).max() < 1e-12 * scale


def test_coarse_velocity_is_interpolated_from_the_stored_free_one() -> None:
    # an instance where the total velocity in B.16 would be off by tens of percent: sub-cycling must stay near
    reference = shake([assembled(two_chains("implicit"))], 2.5e-3 / 5, span=1.0, every=5)
    for ss in (5, 20):
        assert off(shake(two_chains(), 2.5e-3, ss, span=1.0).u["N"][:, 3], reference.u["whole"][:, 3]) < 0.02


@pytest.mark.parametrize("count", [3, 6])
def test_any_number_of_subdomains_on_a_node_in_any_order(count: int) -> None:
    parts = [
        Subdomain(f"S{i}", np.array([50.0 + 10 * i]), np.array([[1e4 * (i + 1.0)]]), {"n": 0},
                  pattern=np.array([-50.0 - 10 * i]), scheme="explicit" if i % 2 else "implicit")
        for i in range(count)
    ]  # fmt: skip
    orders = list(permutations(range(count)))[:: 1 if count < 4 else 239]
    first = shake(parts, 2e-3, span=0.4)
    for order in orders[1:]:
        other = shake([parts[i] for i in order], 2e-3, span=0.4)
        assert off(other.u["S0"], first.u["S0"]) < 1e-12
    alone = shake([assembled([replace(part, scheme="implicit") for part in parts])], 2e-3, span=0.4)
    assert off(first.u["S0"], alone.u["whole"]) < 1e-2  # other scheme, same structure


def test_classical_multipliers_are_singular_where_localized_ones_are_not() -> None:
    compliances = [np.array([[0.5]]), np.array([[2.0]]), np.array([[1.0]])]
    pairs = np.array([[1, -1, 0], [0, 1, -1], [1, 0, -1]])  # one multiplier a pair, Park & Felippa 2000
    classical = pairs @ np.diag([0.5, 2.0, 1.0]) @ pairs.T
    assert np.linalg.matrix_rank(classical) == 2
    localized = multiplier_matrix(compliances, np.zeros(3, dtype=int))
    v = np.array([1.0, -2.0, 0.5])
    force = localized @ v
    after = v + np.array([0.5, 2.0, 1.0]) * force
    np.testing.assert_allclose(after, after[0], rtol=0, atol=1e-14)
    assert abs(force.sum()) < 1e-14


def test_mass_moves_across_the_interface_without_changing_the_motion() -> None:
    """Fractions of the interface mass (m_f, eq. 2.27) change link accelerations as predicted, and nothing else."""
    mass, k = np.array([400.0, 900.0]), 4e5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    tank = Subdomain("N", mass, k, {"base": 0}, pattern=-mass)
    bare = Subdomain("P", np.array([1e-9]), np.array([[2e5]]), {"base": 0}, scheme="explicit")
    runs = {}
    for fraction in (0.1, 0.5, 0.9):
        runs[fraction] = shake(list(share_mass(tank, bare, "base", fraction)), 1e-3, span=2.0)
    u = runs[0.5].u["P"]
    for fraction, run in runs.items():
        assert off(run.u["P"], u) < 1e-9
        # free: m_P a_free = -m_P a_g - k u~, and for central differences u~ = u; what the link adds is a - a_free
        m = fraction * 400.0
        link = run.multipliers["P"][:, 0] / m
        predicted = run.a["P"][:, 0] + ground(run.t) + 2e5 * run.u["P"][:, 0] / m
        assert off(link, predicted) < 1e-9
    largest = [np.abs(run.multipliers["P"]).max() / (f * 400.0) for f, run in runs.items()]
    assert largest[0] > 4 * largest[1] > 4 * largest[2]


class Press:
    """A specimen that moves when told, and whose force is read later; it notes the order of the calls."""

    log: list[str] = []  # noqa: RUF012

    def __init__(self, name: str, k: float) -> None:
        self._name, self._k, self._u = name, k, np.zeros(1)

    def impose(self, u: np.ndarray, v: np.ndarray, t: float) -> None:
        self.log.append(f"move {self._name}")
        self._u = u

    def read(self) -> np.ndarray:
        self.log.append(f"read {self._name}")
        return self._k * self._u


def test_specimens_all_move_before_any_is_read() -> None:
    mass = np.array([100.0])
    parts = [
        Subdomain(
            name, mass, np.array([[k]]), {"n": 0}, specimen=Press(name, k), pattern=-mass, scheme="explicit"
        )
        for name, k in (("A", 1e4), ("B", 3e4))
    ]
    Press.log.clear()
    tested = shake(parts, 2e-3, span=0.2)
    assert Press.log[:4] == ["move A", "move B", "read A", "read B"]
    linear = shake([replace(part, specimen=None) for part in parts], 2e-3, span=0.2)
    assert off(tested.u["A"], linear.u["A"]) < 1e-12


def known_by_responses(far: Subdomain, dt: float, span: float) -> Subdomain:
    h = Impulses(*impulse_responses(far.mass, far.dissipation, far.stiffness, dt, round(span / dt) + 1), dt)
    np.testing.assert_allclose(h.mass, far.mass, rtol=1e-12, atol=1e-10)
    return replace(far, stiffness=0.0 * far.stiffness, rayleigh=(0.0, 0.0), convolution=h)


@pytest.mark.parametrize("load", ["ground", "constant"])
def test_a_subdomain_by_its_impulse_responses(load: str) -> None:
    """Trapezoidal Duhamel against the exact motion: second order in all it returns, also under a sudden load."""
    near, far = two_chains("implicit")
    if load == "constant":  # is there at t = 0, on both sides of the joint
        near, far = (
            replace(part, load=10.0 * part.pattern, pattern=0.0 * part.pattern) for part in (near, far)
        )
    whole = shake([assembled([near, far])], 2e-3 / 20, span=1.0, every=20 * 4)
    errors = []
    for dt in (2e-3, 1e-3):
        known = known_by_responses(far, dt, 1.0)
        run = shake([near, known], dt, span=1.0, every=round(8e-3 / dt))
        errors.append([
            off(run.u["N"], whole.u["whole"][:, :4]), off(run.u["P"], whole.u["whole"][:, 3:]),
            off(run.v["P"], whole.v["whole"][:, 3:]), off(run.a["P"], whole.a["whole"][:, 3:]),
        ])  # fmt: skip
        assert run.gap <= 1e-12 * np.abs(run.v["N"]).max()
    assert max(errors[1][:2]) < 1e-3
    # 0.2: the next order; accelerations jump with a sudden load and have the longest way to their asymptote
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, atol=0.2)


def test_one_subdomain_alone_under_a_constant_load_is_of_second_order() -> None:
    m, k = np.array([[2.0]]), np.array([[80.0]])
    part = Subdomain("P", m, k, load=np.array([3.0]))
    errors = []
    for dt in (2e-3, 1e-3):
        t = dt * np.arange(round(1.0 / dt) + 1)
        run = integrate([known_by_responses(part, dt, 1.0)], 0.0 * t, dt)
        errors.append(off(run.u["P"][:, 0], 3.0 / 80.0 * (1.0 - np.cos(np.sqrt(40.0) * t))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.02)


def test_responses_are_used_again_and_shared() -> None:
    near, far = two_chains("implicit")
    known = known_by_responses(far, 2e-3, 0.4)
    first, second = (shake([near, known], 2e-3, span=0.4) for _ in range(2))
    np.testing.assert_array_equal(second.u["N"], first.u["N"])
    both = shake([near, known, replace(known, name="Q")], 2e-3, span=0.4)
    np.testing.assert_allclose(both.u["Q"], both.u["P"], rtol=0, atol=1e-15)


def test_responses_that_do_not_fit_are_refused() -> None:
    near, far = two_chains("implicit")
    known = known_by_responses(far, 2e-3, 0.4)
    with pytest.raises(StudyError, match=r"sampled every 0.002 s, but it takes steps of 0.001 s"):
        shake([near, known], 1e-3)
    with pytest.raises(StudyError, match=r"gamma = 1/2; found gamma = 0.6"):
        replace(known, scheme=(0.6, 0.3025))


def test_impulse_responses_from_receptances() -> None:
    """The series with the sign corrected; its remainder is of order 1/terms^2 once the step is taken off."""
    m, c, k = 2.0, 1.5, 80.0
    found = from_receptances(
        lambda s: np.array([[1.0 / (m * s * s + c * s + k)]]),
        np.array([[m]]),
        period=15.0,
        terms=20000,
        dt=0.01,
    )
    exact = impulse_responses(np.array([[m]]), np.array([[c]]), np.array([[k]]), 0.01, 1501)
    for series, true in zip(found, exact, strict=True):
        assert (
            off(series, true) < 3e-3
        )  # exp(-2 alpha T) = 2.5e-3 of what is left at 2 T, nothing here; 1/q at t = 0
        assert off(series[5:], true[5:]) < 1e-3


def test_what_cannot_be_integrated_is_refused() -> None:
    near, far = two_chains()
    limit = far.longest_step()
    assert limit == pytest.approx(2.0 / np.sqrt(np.linalg.eigvalsh(far.stiffness / 80.0)[-1]))
    with pytest.raises(StudyError, match=f"P: a step of 0.05 s is beyond the limit .*{limit:.6g} s"):
        shake([near, far], 0.05)
    shake([near, far], 0.99 * limit, span=0.5)
    with pytest.raises(StudyError, match="P: a step of"):
        prepare([near, far], 5.1 * limit, 5, "gc")
    with pytest.raises(StudyError, match="P has no mass at degrees of freedom 1"):
        replace(far, mass=np.array([1.0, 0.0, 1.0]))
    with pytest.raises(StudyError, match=r'node "elsewhere" of P has no partner.*joint'):
        shake([near, replace(far, interface={"joint": 0, "elsewhere": 2})], 1e-3)
    with pytest.raises(StudyError, match="names of their own"):
        shake([near, near], 1e-3)
    with pytest.raises(StudyError, match=r"stiffness must be \(3, 3\)"):
        replace(far, stiffness=np.eye(2))
    with pytest.raises(StudyError, match="symmetric"):
        replace(far, stiffness=np.triu(np.ones((3, 3))))
    with pytest.raises(StudyError, match="tied to degree of freedom 7"):
        replace(far, interface={"joint": 7})
    with pytest.raises(StudyError, match=r'implicit, explicit or .* found "euler"'):
        replace(far, scheme="euler")
    wild = replace(hardening(1e5), restoring=lambda u, v, t: -1e12 * u)
    with pytest.raises(SimulationError, match="diverged"):
        shake([near, wild], 1e-2)
