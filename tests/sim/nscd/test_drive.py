"""Runs: determinism, records, and what is said of bad input."""

import math
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.sim.common.shapes import Box, Capsule, Convex, Cylinder, HalfSpace, Ring, Sphere
from tamis.sim.nscd import drive
from tamis.sim.nscd.drive import Rest, run
from tamis.sim.nscd.scene import Body, Law, Motion, Part, Scene, about
from tamis.sim.nscd.scenes import basic, rockfall

CUBE = Part(Box((0.2, 0.2, 0.2)))


def two(apart, **options):
    """Two cubes in the air, their centres ``apart``."""
    return Scene(
        [
            Body("left", [CUBE], mass=1.0),
            Body("right", [CUBE], mass=1.0, position=(apart, 0.0, 0.0)),
        ],
        [Law("default", "default", 0.3)],
        **options,
    )


def test_the_same_bytes_in_any_order_and_any_process():
    scene = rockfall.Wall().scene()
    first = run(scene, 0.03, tol=1e-6).digest
    shuffled = list(scene.bodies)
    np.random.default_rng(3).shuffle(shuffled)
    assert run(scene, 0.03, tol=1e-6).digest == first
    assert run(Scene(shuffled, scene.laws, scene.gravity), 0.03, tol=1e-6).digest == first
    code = (
        "from tamis.sim.nscd.scenes import rockfall\nfrom tamis.sim.nscd.drive import run\n"
        "print(run(rockfall.Wall().scene(), 0.03, tol=1e-6).digest)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == first


def test_a_long_record_is_the_short_one_and_more():
    every, some = (
        run(basic.Bounce(e=0.5).scene(), 0.505),
        run(basic.Bounce(e=0.5).scene(), 0.505, record=0.01),
    )
    assert every.digest == some.digest
    np.testing.assert_allclose(some.times, [*np.arange(0, 0.505, 0.01), 0.505])
    np.testing.assert_array_equal(some.x[:-1], every.x[::10])
    np.testing.assert_array_equal(some.x[-1], every.x[-1])


def test_bodies_that_overlap_are_refused_with_their_names_and_how_deep():
    with pytest.raises(StudyError, match=r'"left" and "right" overlap by 0.05 m at the start; .*"separate"'):
        run(two(0.15), 0.1)


def test_or_separated_and_told_by_how_much():
    with pytest.warns(
        TamisWarning, match=r'"left" and "right" overlap by 0.05 m .*; 2 bodies were moved .*, by 0.025 m'
    ):
        history = run(two(0.15, gravity=(0.0, 0.0, 0.0)), 0.1, overlap="separate")
    x = history.x[-1, :, 0]
    assert x[1] - x[0] == pytest.approx(0.2, abs=1e-6) and x.sum() == pytest.approx(0.15, abs=1e-9)


def test_no_room_to_separate():
    walls = [
        Body(
            name, [Part(HalfSpace())], fixed=True, position=(x, 0.0, 0.0), orientation=about((0, 1, 0), turn)
        )
        for name, x, turn in (("west", -0.05, 90.0), ("east", 0.05, -90.0))
    ]
    with pytest.raises(StudyError, match="there is no room for all of them"):
        run(
            Scene([*walls, Body("cube", [CUBE], mass=1.0)], [Law("default", "default", 0.0)]),
            0.1,
            overlap="separate",
        )


def test_a_separation_that_is_not_finite_is_said_at_once(monkeypatch):
    monkeypatch.setattr(drive.solve, "solve", lambda *_: drive.solve.NOT_FINITE)
    with pytest.raises(SimulationError, match="cannot be moved apart: the displacement is not finite"):
        run(two(0.15), 0.1, overlap="separate")


def test_touching_groups_without_a_law_are_told_once():
    bodies = [
        Body("floor", [Part(HalfSpace(), group="soil")], fixed=True),
        *(Body(f"cube{i}", [CUBE], mass=1.0, position=(float(i), 0.0, 0.1)) for i in range(3)),
    ]
    with pytest.warns(TamisWarning, match="no law between default and soil") as said:
        run(Scene(bodies), 0.01)
    assert len(said) == 1


def test_groups_that_touch_without_a_law_are_told_together_and_may_be_declared():
    bodies = [
        Body("floor", [Part(HalfSpace(), group="soil")], fixed=True),
        *(
            Body(f"cube{i}", [replace(CUBE, group=f"cube{i}")], mass=1.0, position=(0.3 * i, 0.0, 0.1))
            for i in range(3)
        ),
    ]
    with pytest.warns(TamisWarning, match=r"no law between cube\d and soil") as said:
        run(Scene(bodies), 0.01)
    assert len(said) == 1
    assert all(f"cube{i}-soil" in str(said[0].message) for i in (1, 2))
    assert 'ignore=[("cube0", "soil")]' in str(said[0].message)
    run(Scene(bodies, ignore=[("soil", f"cube{i}") for i in range(3)]), 0.01)  # warnings are errors here


def test_pairs_to_be_ignored_are_groups_of_the_scene_without_a_law():
    bodies = [
        Body("floor", [Part(HalfSpace(), group="soil")], fixed=True),
        Body("cube", [CUBE], mass=1.0, position=(0.0, 0.0, 0.1)),
    ]
    with pytest.raises(
        StudyError, match='ignore names the group "sol", which no body has; did you mean "soil"'
    ):
        Scene(bodies, ignore=[("sol", "default")])
    with pytest.raises(StudyError, match="soil and default have a law and are to be ignored"):
        Scene(bodies, [Law("default", "soil", 0.1)], ignore=[("soil", "default")])
    with pytest.raises(StudyError, match="ignore must be a list of pairs of groups"):
        Scene(bodies, ignore=["soil"])


def sliding_block(mu):
    return Scene(
        [
            Body("floor", [Part(HalfSpace(), group="soil")], fixed=True),
            Body("cube", [CUBE], mass=1.0, position=(0.0, 0.0, 0.1), velocity=(1.0, 0.0, 0.0)),
        ],
        [Law("default", "soil", mu)],
    )


@pytest.mark.parametrize("record", [None, 0.007])
def test_a_run_ends_when_all_is_at_rest(record):
    """A block with 1 m/s and mu 0.5 stops after 1/(0.5 g) s; the last instant is there, whatever is recorded."""
    history = run(sliding_block(0.5), 5.0, rest=Rest(1e-3, 0.05), record=record)
    stop = 1.0 / (0.5 * 9.81)
    assert history.rest == pytest.approx(stop, abs=1.1e-3)  # one step
    assert history.times[-1] == pytest.approx(history.rest + 0.05, abs=1e-9)
    assert len(history.solver.residual) == round(history.times[-1] / 1e-3)
    assert history.path("cube")[-1, 0] == pytest.approx(0.5 * stop, abs=1e-3)  # h v
    whole = run(sliding_block(0.5), float(history.times[-1]), record=record)
    assert history.digest == whole.digest and math.isnan(whole.rest)
    assert len(history.times) == len(whole.times) and (history.x == whole.x).all()


def test_what_spins_in_its_place_is_not_at_rest():
    top = Body("top", [Part(Sphere(0.1))], mass=1.0, position=(0.0, 0.0, 0.1), spin=(0.0, 0.0, 5.0))
    floor = Body("floor", [Part(HalfSpace(), group="soil")], fixed=True)
    scene = Scene([floor, top], [Law("default", "soil", 0.3)])
    assert math.isnan(run(scene, 0.3, rest=Rest(0.4, 0.05)).rest)  # 0.1 m times 5 rad/s is 0.5 m/s
    assert run(scene, 0.3, rest=Rest(0.6, 0.05)).rest == 0.0
    assert run(scene, 0.3, rest=Rest(0.1, 0.05, (("top", 0.6),))).rest == 0.0  # it may spin on


def test_rest_wants_positive_numbers():
    with pytest.raises(StudyError, match="a speed and a time that are positive"):
        Rest(speed=0.0)


def test_a_missing_law_is_told_even_if_they_have_passed_through_each_other():
    rock = Body(
        "rock",
        [Part(Sphere(0.2), group="rock")],
        mass=1.0,
        position=(-2.0, 0.0, 0.0),
        velocity=(10.0, 0.0, 0.0),
    )
    post = Body("post", [CUBE], fixed=True)
    with pytest.warns(TamisWarning, match="no law between default and rock"):
        history = run(Scene([rock, post], gravity=(0.0, 0.0, 0.0)), 0.5)
    assert history.x[-1, history.scene.number("rock"), 0] == pytest.approx(3.0)


def test_a_step_too_large_for_the_speed_is_told():
    bullet = Body("bullet", [Part(Sphere(0.01))], mass=0.1, position=(0, 0, 1), velocity=(0.0, 0.0, -50.0))
    plate = Body("plate", [Part(Box((1.0, 1.0, 0.02)), group="plate")], fixed=True)
    with pytest.warns(TamisWarning, match=r"bullet moves by 0.05.* m in a step.*take h < 0.0004"):
        run(Scene([bullet, plate], [Law("default", "plate", 0.0)]), 0.01, h=1e-3)


def test_plates_that_meet_head_on_and_a_bar_that_leaves_its_ring_are_told_too():
    plates = [
        Body(
            f"p{k}",
            [Part(Box((1.0, 1.0, 0.02)))],
            mass=1.0,
            position=(0, 0, k),
            velocity=(0, 0, 18.0 - 36.0 * k),
        )
        for k in range(2)
    ]
    with pytest.warns(TamisWarning, match=r"p0 moves by 0.018 m in a step, turning included; above 0.01 m"):
        run(Scene(plates, [Law("default", "default", 0.0)], gravity=(0, 0, 0)), 0.01)
    ring = Body("ring", [Part(Ring(0.05), group="ring")], fixed=True)
    bar = Body("bar", [Part(Capsule(0.04, 1.0))], mass=1.0, velocity=(100.0, 0.0, 0.0))
    with pytest.warns(TamisWarning, match=r"bar moves by 0.1 m in a step, turning included; above 0.04 m"):
        run(Scene([ring, bar], [Law("default", "ring", 0.0)], gravity=(0, 0, 0)), 0.001)


def test_ends_that_turn_too_fast_are_told_and_what_is_round_is_not():
    rod = Body("rod", [Part(Capsule(0.01, 2.0))], mass=1.0, position=(0, 0, 2), spin=(60.0, 0.0, 0.0))
    ball = Body("ball", [Part(Sphere(0.01))], mass=1.0, position=(0, 3, 2), spin=(6000.0, 0.0, 0.0))
    plate = Body("plate", [Part(Box((9.0, 9.0, 0.02)), group="plate")], fixed=True)
    laws = [Law("default", "plate", 0.0)]
    with pytest.warns(TamisWarning, match=r"rod moves by 0.06 m in a step, turning included; above 0.02 m"):
        run(Scene([rod, plate], laws, gravity=(0, 0, 0)), 0.002)
    wheel = Body("wheel", [Part(Cylinder(0.1, 2.0))], mass=1.0, position=(0, -3, 2), spin=(0.0, 0.0, 600.0))
    corners = np.array([(x, y, z) for x in (4.9, 5.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
    cube = Body("cube", [Part(Convex(corners))], mass=1.0, position=(-5, 0, 2), spin=(60.0, 0.0, 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(Scene([ball, wheel, cube, plate], laws, gravity=(0, 0, 0)), 0.002)


def test_what_is_driven_onto_what_is_fixed_leaves_the_rest_alone():
    ground = Body("ground", [Part(HalfSpace(), group="ground")], fixed=True)
    piston = Body("piston", [CUBE], motion=Motion([0.0], [(0.0, 0.0, -0.1)]), position=(5.0, 0.0, 0.1))
    box = Body("box", [CUBE], mass=1.0, position=(0.0, 0.0, 0.1))
    history = run(Scene([ground, piston, box], [Law("ground", "default", 0.5)]), 0.02)
    assert history.solver.converged.all() and np.abs(history.path("box") - (0.0, 0.0, 0.1)).max() < 1e-12
    still = run(Scene([ground, piston], [Law("ground", "default", 0.5)]), 0.02)
    assert (still.solver.contacts == 0).all() and still.solver.worst[0] == ("", "")


def test_the_end_is_where_it_was_asked_for():
    history = run(basic.Bounce(e=0.5).scene(), 0.1, h=0.007)
    assert history.times[-1] == pytest.approx(0.1, rel=1e-15) and len(history.times) == 16


def test_a_ring_hangs_on_its_bar():
    ring = Body(
        "ring",
        [Part(Ring(0.05), group="ring")],
        mass=2.0,
        inertia=np.diag([1.0, 1.0, 1.0]),
        position=(0, 0, -0.03),
        orientation=about((1, 0, 0), 90.0),
    )
    bar = Body("bar", [Part(Cylinder(0.02, 1.0), turn=about((1, 0, 0), 90.0))], fixed=True)
    history = run(Scene([ring, bar], [Law("default", "ring", 0.3)]), 0.05, contacts=True)
    last = history.contacts.instant == len(history.times) - 1
    rows, on_ring = history.contacts.of("ring")
    assert np.abs(history.path("ring") - (0.0, 0.0, -0.03)).max() < 1e-6
    assert on_ring[last[rows]].sum(axis=0)[2] == pytest.approx(2.0 * 9.81e-3, rel=1e-6)
    np.testing.assert_array_equal(history.contacts.of("bar")[1], -on_ring)
    assert repr(history) == "History(2 bodies, 0.05 s in 50 steps, 51 instants recorded)"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Body("b", [CUBE], mass=0.0), 'body "b": mass must be positive and finite, found 0.0'),
        (lambda: Body("b", [CUBE], mass=-2.0), "mass must be positive"),
        (lambda: Body("b", [CUBE], density=float("nan")), "density must be positive and finite"),
        (lambda: Body("b", [CUBE]), "needs a mass or a density, found neither"),
        (lambda: Body("b", [CUBE], mass=1.0, density=1.0), "found both"),
        (lambda: Body("b", [CUBE], mass=1.0, force=(float("nan"), 0, 0)), "force must be 3 finite numbers"),
        (lambda: Body("b", [CUBE], mass=1.0, velocity=(1.0, 2.0)), "velocity must be 3 finite numbers"),
        (lambda: Body("b", [CUBE], mass=1.0, orientation=(0, 0, 0, 0)), "quaternion other than zero"),
        (lambda: Body("b", [CUBE], fixed=True, velocity=(1, 0, 0)), "is fixed and yet has a velocity"),
        (lambda: Body("b", [Part(HalfSpace())], mass=1.0), "half-space, which has no mass"),
        (
            lambda: Body("b", [CUBE], mass=1.0, inertia=np.diag([1.0, 1.0, 3.0])).inertial(),
            "belong to no body",
        ),
        (lambda: Body("b", [CUBE], mass=1.0, inertia=np.ones(3)).inertial(), "symmetric, finite matrix"),
        (lambda: Body("b", CUBE, mass=1.0), "parts must be a list of Part(...), found Part("),
        (
            lambda: Body("b", [Box((1, 1, 1))], mass=1.0),
            "parts must be a list of Part(...), found Box(",
        ),
        (lambda: Box(0.1), "Box: sides must be 3 numbers; found 0.1"),
        (
            lambda: Scene(
                [
                    Body("b", [CUBE], mass=1.0),
                    Body("r", [Part(Ring(0.1), group="ring")], mass=1.0, inertia=np.eye(3)),
                ],
                [Law("ring", "default", 0.1)],
            ),
            'the group "default" has neither, but Box',
        ),
        (lambda: Part(CUBE.shape, turn=(0, 0, 0, 0)), "turn is a quaternion other than zero"),
        (lambda: Part(CUBE.shape, centre=(float("nan"), 0, 0)), "centre must be 3 finite numbers"),
        (lambda: Scene([]), "at least one body"),
        (
            lambda: Body("b", [CUBE], motion=Motion([0.0], [(0, 0, 1)]), velocity=(1, 0, 0)),
            "has a motion and yet a velocity",
        ),
        (lambda: Law("a", "b", -0.1), "mu must be zero or positive"),
        (lambda: Law("a", "b", 0.1, 1.2), "e must lie between 0 and 1"),
        (lambda: two(1.0, gravity=(0.0, 0.0, float("inf"))), "gravity must be 3 finite numbers"),
        (lambda: Scene([Body("b", [CUBE], mass=1.0)] * 2), "same name: b"),
        (lambda: Scene([Body("b", [CUBE], mass=1.0)], [Law("defualt", "default", 0.1)]), 'mean "default"'),
        (
            lambda: Scene([Body("b", [CUBE], mass=1.0)], [Law("default", "default", 0.1)] * 2),
            "two laws for default and default",
        ),
        (lambda: run(two(1.0), 1.0, h=2.0), "0 < h <= duration"),
        (lambda: run(two(1.0), float("nan")), "0 < h <= duration"),
        (lambda: run(two(1.0), 1.0, theta=0.3), "theta must lie between 1/2"),
        (lambda: run(two(1.0), 1.0, tol=0.0), "tol, the residual allowed"),
        (lambda: run(two(1.0), 1.0, overlap="ignore"), '"refuse" or "separate"'),
        (lambda: run(two(1.0), 0.01).path("lfet"), 'did you mean "left"'),
        (lambda: Motion([0.0, 0.0], np.zeros((2, 3))).at(np.zeros(1)), "rising times"),
        (lambda: about((0, 0, 0), 3.0), "axis other than zero"),
        (lambda: run(two(1.0), 0.01, record=0.0), "must be positive and finite, found 0.0"),
        (
            lambda: Scene([Body("b", [CUBE], mass=1.0)], gravity=-9.81),
            "gravity must be 3 finite numbers, found -9.81",
        ),
        (lambda: Scene(Body("b", [CUBE], mass=1.0)), "bodies must be a list of Body(...)"),
        (
            lambda: Scene([Body("b", [CUBE], mass=1.0)], Law("a", "b", 0.3)),
            "laws must be a list of Law(...)",
        ),
        (
            lambda: Body("b", [CUBE], mass=1.0, position=(0, 1)),
            'body "b": position must be 3 finite numbers, found (0, 1)',
        ),
        (lambda: Body("b", [CUBE], mass=1.0, force="up"), "force must be 3 finite numbers, found 'up'"),
        (lambda: Body("b", [CUBE], density="heavy"), "density must be a number, found 'heavy'"),
        (lambda: Body(3, [CUBE], mass=1.0), "a body needs a name, found 3"),
        (lambda: Part("box"), "(1.0, 1.0, 1.0)), found 'box'"),
        (lambda: Part(Box), "(1.0, 1.0, 1.0)), found <class"),
        (lambda: Part(Sphere(1.0), group=None), "a group is a name, found None"),
        (lambda: Law("a", "b", mu="rough"), "law of a and b: mu must be a number, found 'rough'"),
        (
            lambda: Body("b", [CUBE], fixed=True, motion=Motion([0.0], [[0, 0, 1.0]])),
            "fixed and yet has a motion",
        ),
        (
            lambda: run(
                Scene([Body("b", [Part(Convex(((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0))))], mass=1.0)]),
                1.0,
            ),
            "flat, in one plane",
        ),
    ],
)
def test_bad_input_is_refused_in_words(make, words):
    with pytest.raises(StudyError) as error:
        make()
    assert words in str(error.value)


def test_bodies_that_fly_on_together_leave_nothing_to_solve():
    """After a blow without rebound the relative velocity is round-off, and so must the residual be."""
    scene = Scene(
        [
            Body("block", [Part(Box((0.4, 0.4, 0.4)))], mass=10.0),
            Body("ball", [Part(Sphere(0.1))], mass=0.1, position=(-0.4, 0.0, 0.0), velocity=(3.0, 0.0, 0.0)),
        ],
        [Law("default", "default", 0.4)],
        gravity=(0.0, 0.0, 0.0),
    )
    history = run(scene, 0.05)
    assert history.solver.converged.all()
    np.testing.assert_allclose(history.velocity("block")[-1], [0.3 / 10.1, 0.0, 0.0], rtol=1e-12, atol=1e-14)


def test_every_shape_is_replayed():
    shapes = [
        Sphere(0.1),
        Box((0.2, 0.2, 0.2)),
        Cylinder(0.1, 0.2),
        Capsule(0.1, 0.2),
        Ring(0.1),
        HalfSpace(),
    ]
    shapes.append(Convex([(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)]))
    bodies = [
        Body(f"b{k}", [Part(shape)], fixed=True, position=(k, 0.0, 0.0)) for k, shape in enumerate(shapes)
    ]
    replay = run(Scene(bodies), 0.01).replay()
    kinds = [shape.kind for shape in replay.shapes]
    assert sorted(kinds) == ["box", "capsule", "convex", "cylinder", "halfspace", "ring", "sphere"]


def test_a_run_is_written_with_its_poses_and_contact_forces(tmp_path):
    """A block off its centre of mass slides and stops: poses are those of its frame, forces carry its weight."""
    slope = about((0, 0, 1), 30.0)
    scene = Scene(
        [
            Body("floor", [Part(HalfSpace(), group="soil")], fixed=True),
            Body(
                "cube",
                [CUBE],
                mass=2.0,
                centre=(0.02, 0.0, 0.0),
                inertia=0.02 * np.eye(3),
                position=(0.0, 0.0, 0.1),
                orientation=slope,
                velocity=(0.5, 0.0, 0.0),
            ),
        ],
        [Law("default", "soil", 0.4)],
    )
    history = run(scene, 0.2, record=0.01, contacts=True)
    history.save(tmp_path / "run.npz")
    kept = np.load(tmp_path / "run.npz")
    assert kept["bodies"].tolist() == ["cube", "floor"] and kept["laws"].tolist() == ["default-soil"]
    assert (kept["position"][:, 0] == history.path("cube")).all()
    np.testing.assert_allclose(kept["orientation"][0, 0], slope, atol=1e-15)
    np.testing.assert_allclose(kept["position"][0, 0], [0.0, 0.0, 0.1], atol=1e-15)
    for instant in range(1, len(kept["times"])):
        here = kept["contact_instant"] == instant
        pair = kept["contact_bodies"][here]
        signs = np.where(kept["bodies"][pair[:, 1]] == "cube", 1.0, -1.0)
        lift = (signs[:, None] * kept["contact_force"][here])[:, 2].sum()
        assert lift == pytest.approx(2.0 * 9.81, rel=1e-6)  # the solver's tol times some
    assert (kept["contact_law"] == 0).all()
    with pytest.raises(StudyError, match=r"ends in \.npz"):
        history.save(tmp_path / "run.csv")
