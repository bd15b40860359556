"""The books close, energy does not grow where theory says so, and where it grows it is told."""

import math
import warnings

import numpy as np
import pytest

from tamis.errors import TamisWarning
from tamis.sim.common.shapes import Box, Capsule
from tamis.sim.nscd.drive import run
from tamis.sim.nscd.scene import Body, Law, Motion, Part, Scene, about
from tamis.sim.nscd.scenes import basic, case, rockfall
from tests.sim.nscd.scenes import thrown

SCENES = [pytest.param(100, id="100"), pytest.param(1000, id="1000", marks=pytest.mark.slow)]
TOL = 1e-10


def growth(scene):
    """Return the largest growth of the energy in a step, and the gap in the books, over the initial energy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the contact problem was not solved")
        history = run(scene, 0.4, h=2e-3, tol=TOL)
    assert history.solver.residual.max() < 10 * TOL  # of 200 000 steps one may end a little above
    return float(np.diff(history.ledger.energy).max()) / history.ledger.scale, history.ledger.closure


@pytest.mark.parametrize("count", SCENES)
def test_without_restitution_energy_never_grows_whatever_the_friction(count):
    rng = np.random.default_rng(11)
    for _ in range(count):
        mu = rng.uniform(0.0, 1.5, 2)
        grown, gap = growth(thrown(rng, [(mu[0], 0.0), (mu[1], 0.0)]))
        assert grown < 100 * TOL  # a contact may do the work of its residual; about ten touch at a time
        assert gap < 1e-10


@pytest.mark.parametrize("count", SCENES)
def test_without_friction_and_one_restitution_energy_never_grows(count):
    rng = np.random.default_rng(12)
    for _ in range(count):
        e = float(rng.uniform(0.0, 1.0))
        grown, gap = growth(thrown(rng, [(0.0, e), (0.0, e)]))
        assert grown < 100 * TOL
        assert gap < 1e-10


def rod(degrees, slip, mu=0.6, e=0.95):
    """A slender rod that falls with its lower end just above the ground, without spin."""
    radius, length = 0.005, 1.0
    angle = math.radians(degrees)
    z = radius + 0.5 * length * math.cos(angle) + 1e-6
    body = Body(
        "rod",
        [Part(Capsule(radius, length))],
        mass=1.0,
        position=(0.0, 0.0, z),
        orientation=about((0, 1, 0), degrees),
        velocity=(slip, 0.0, -1.0),
    )
    return Scene([case.GROUND, body], [Law("ground", "default", mu, e)], gravity=(0.0, 0.0, 0.0))


def test_a_rod_that_gains_energy_says_so():
    """Kane's paradox: Newton's restitution, and friction that acts along the slip it meets.

    At 30 degrees the rod answers a normal impulse by slip: W_N = 1.75/m, W_T = 3.25/m, W_NT = -1.3/m. Sticking takes
    W r = (1 + e, -0.7) and the energy changes by [0.7 r_T - (1 - e) r_N]/2, which is positive for e = 0.95.
    """
    with pytest.warns(TamisWarning, match=r"created .* J, .* in ground-default"):
        history = run(rod(30.0, 0.7), 0.01, tol=1e-12)
    energy = history.ledger.energy
    gain = history.ledger.gain[-1].sum()
    assert gain == pytest.approx(energy[-1] - energy[0], rel=1e-9) and gain > 0.01 * energy[0]
    assert history.ledger.closure < 1e-12
    sticks = run(rod(30.0, 0.7, e=0.0), 0.01, tol=1e-12)
    assert sticks.ledger.energy[-1] < sticks.ledger.energy[0]


def test_losses_are_split_between_impact_and_friction():
    slid = run(basic.Slide(angle=30.0, azimuth=20.0, mu=0.3).scene(), 1.0, tol=1e-12).ledger
    weight, distance = 10.0 * 9.81, 0.5 * 9.81 * (0.5 - 0.3 * math.sqrt(0.75))
    assert -slid.friction[-1, 0] == pytest.approx(0.3 * weight * math.sqrt(0.75) * distance, rel=1e-9)
    assert abs(slid.impact[-1, 0]) < 1e-9 * slid.scale
    fell = run(basic.Bounce(e=0.8).scene(), 0.6).ledger
    assert fell.friction[-1, 0] == 0.0
    # one impact at 4.43 m/s: (1 - e^2)/2 m v^2, at the velocity of the start of the step, up to g h off
    assert -fell.impact[-1, 0] == pytest.approx(0.36 * 9.81, rel=2 * 9.81e-3 / 4.43)


def test_impulses_add_up_to_the_change_of_momentum():
    history = run(rockfall.Wall().scene(), 0.02, tol=1e-6, contacts=True)
    scene, contacts = history.scene, history.contacts
    for name in ("projectile", "r2_b4", "r1_b4", "r0_b0"):
        i = scene.number(name)
        mass = next(body for body in scene.bodies if body.name == name).mass
        given = np.zeros((len(history.times), 3))
        for instant, (one, other), impulse in zip(
            contacts.instant, contacts.bodies, contacts.impulse, strict=True
        ):
            given[int(instant)] += impulse * ((other == name) - (one == name))
        change = mass * np.diff(history.v[:, i, :3], axis=0)
        weight = np.array([0.0, 0.0, -9.81 * mass]) * 1e-3
        # round-off of the largest momentum, 52 000 N s
        np.testing.assert_allclose(given[1:] + weight, change, rtol=0, atol=1e-9 * 52_000)


def test_a_driven_plate_does_the_work_that_friction_takes():
    plate = Body(
        "plate",
        [Part(Box((4.0, 1.0, 0.2)), group="ground")],
        position=(0.0, 0.0, -0.1),
        motion=Motion([0.0, 0.5], [(0.0, 0.0, 0.0), (2.0, 0.0, 0.0)]),
    )
    block = Body("block", [Part(Box((0.2, 0.2, 0.1)))], mass=3.0, position=(0.0, 0.0, 0.05))
    history = run(Scene([plate, block], [Law("ground", "default", 0.2)]), 1.0, tol=1e-12)
    # the plate speeds up at 4 m/s2, the block at mu g = 1.962 m/s2 until it has caught up at 1.019 s
    assert history.velocity("block")[-1, 0] == pytest.approx(0.2 * 9.81 * 1.0, rel=1e-9)
    assert history.path("plate")[-1, 0] == pytest.approx(0.5 * 4.0 * 0.25 + 1.0, rel=1e-9)
    given = 3.0 * 1.962 * 1.5  # force times the path of the plate
    assert history.ledger.driver[-1] == pytest.approx(given, rel=1e-9)
    assert history.ledger.closure < 1e-12


def test_theta_above_one_half_damps():
    free = Scene([Body("ball", [Part(Box((0.1, 0.1, 0.1)))], mass=1.0)])
    exact, damped = (run(free, 1.0, theta=theta).ledger.energy for theta in (0.5, 1.0))
    assert np.ptp(exact) < 1e-11  # J, of 48 J that change from potential to kinetic
    # theta = 1 takes the velocity of the end: it falls g h^2/2 further a step, that much potential too little
    assert damped[-1] - damped[0] == pytest.approx(-0.5 * 9.81**2 * 1e-3, rel=1e-9)
