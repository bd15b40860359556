"""A packed gabion: its books, its size, its rest, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError, TamisWarning
from tamis.files import load_arrays, save_arrays
from tamis.sim.acd2 import drive, stored
from tamis.sim.acd2.packing import corners, scatter
from tamis.sim.acd2.scene import Gabion
from tamis.sim.common.shapes import Convex, hull_of, mass_of
from tamis.simulation import find

SMALL = {"grains": 8, "side": 0.2, "settling": 0.4, "hold": 0.2, "sweeps": 20_000}


def test_a_grain_has_twelve_faces_and_its_volume() -> None:
    hull = hull_of(Convex(tuple(map(tuple, corners(0.078, 0.053, 0.065, 0.038)))))
    assert hull is not None and len(hull.loops) == 12 and len(hull.vertices) == 12
    mean = np.array([0.078, 0.053, 0.065, 0.038])
    (grain,) = scatter(1, mean, 0.0, 3.47e-4, np.random.default_rng(0))
    about = mass_of(grain)
    assert about.volume == pytest.approx(3.47e-4, rel=1e-12)  # round-off, here and below
    assert np.abs(about.centre).max() < 1e-15
    assert np.abs(about.inertia - np.diag(np.diag(about.inertia))).max() < 1e-12 * about.inertia.max()


def test_books_and_momentum_close() -> None:
    packing = drive.pack(Gabion(**SMALL))
    first, last, record = packing.closed, packing.steps, packing.record
    assert drive.closure(record.books[:last]) < 1e-11  # sums of some hundred steps, to round-off
    momentum, given = record.momentum[first:last, 0], record.momentum[first:last, 1]
    scale = np.abs(given).sum(axis=0).max()
    assert (
        np.abs(np.diff(momentum, axis=0) - given[1:]).max() < 1e-9 * scale
    )  # gravity and net alone change it
    assert record.residual[:last].max() <= 1e-4


def test_a_small_gabion_comes_to_rest_in_its_box() -> None:
    found = drive.simulate_gabion(Gabion(**SMALL))
    assert found["side"][-1] == pytest.approx([0.2] * 3, rel=1e-12)
    assert found["drift"] < 2e-4  # 1 mm a second, over 0.2 s
    lost = np.diff(found["friction"])  # slip that turns round within a step gives a little back
    assert lost.sum() > 0.01 and -lost[lost < 0.0].sum() < 0.01 * lost.sum()
    # settling undoes what closing leaves beyond half a hundredth of a grain, and a fifth of that may come back
    assert found["overlap"] < 0.006 * 0.07 < found["deepest"].max()
    assert found["extent"].max() < 0.2 * 1.02  # corners poke out until the net holds them
    assert np.isfinite(found["x"]).all() and np.abs(np.linalg.norm(found["q"], axis=1) - 1.0).max() < 1e-12


@pytest.mark.filterwarnings("ignore:the jump was not solved")  # 3 of the 920 of seed 3
def test_same_seed_same_packing() -> None:
    gabion = find("tamis:acd2.gabion")
    one, same, other = (gabion(**SMALL | {"seed": seed}) for seed in (3, 3, 4))
    assert all((one[name] == same[name]).all() for name in one)
    assert not np.array_equal(one["x"], other["x"])


def test_a_packing_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Gabion(grains=2, side=0.15, settling=0.01, hold=0.01)
    drive.pack(scene)  # compiled from the cache of the others
    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path))
    shapes, x, q = stored.packed(scene)
    path = stored.path_of(scene)
    assert path.is_file() and path != stored.path_of(replace(scene, seed=2))
    monkeypatch.setattr(stored, "pack", None)  # it would fail if it were called
    again = stored.packed(scene)
    assert again[0] == shapes and (again[1] == x).all() and (again[2] == q).all()
    monkeypatch.setattr(stored, "pack", drive.pack)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(
        TamisWarning, match=r"a kept packing cannot be used, grains are packed again: .* is damaged"
    ):
        assert (stored.packed(scene)[1] == x).all()


def test_a_kept_packing_that_is_not_of_its_grains_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path))
    scene = Gabion(grains=2, side=0.15, settling=0.01, hold=0.01)
    _, x, _ = stored.packed(scene)
    path = stored.path_of(scene)
    good = load_arrays(path)
    nan = np.full_like(x, np.nan)
    for change, said in (
        ({"x": x[:1], "q": good["q"][:1]}, r"x of 2 grains has the shape \(2, 3\), found \(1, 3\)"),
        ({"start": good["start"][:-1]}, r"start of 2 grains has the shape \(3,\), found \(2,\)"),
        ({"vertices": good["vertices"][:-1]}, "its vertices are not those of 2 grains"),
        ({"start": good["start"] - 1}, "its vertices are not those of 2 grains"),
        ({"vertices": good["vertices"][:, 0]}, r"vertices of 2 grains has the shape \(n, 3\), found \(24,\)"),
        ({"x": nan}, "x holds what is no number"),
        ({"x": x.astype(str)}, "x holds what is no number"),
        ({"q": 2.0 * good["q"]}, "its quaternions are not of length one"),
    ):
        save_arrays(path, good | change)
        with pytest.warns(TamisWarning, match=f"grains are packed again: .*{said}"):
            assert (stored.packed(scene)[1] == x).all()
    save_arrays(path, {name: array for name, array in good.items() if name != "q"})
    with pytest.warns(TamisWarning, match=r"npz has no q"):
        stored.packed(scene)
    assert (load_arrays(path)["q"] == good["q"]).all()


@pytest.mark.filterwarnings("ignore:the jump was not solved")  # of the stiffest net, in 3 steps
@pytest.mark.parametrize("rough", [{"speed": 10.0}, {"k_net": 1e13}])
def test_a_packing_that_overlaps_deeply_says_so(rough: dict[str, float]) -> None:
    scene = Gabion(grains=2, side=0.15, settling=0.01, hold=0.01, dt=0.01, **rough)
    with pytest.warns(TamisWarning, match=r"overlap by up to .* mm, more than 0\.01 of their size, 70\.3 mm"):
        found = drive.simulate_gabion(scene)
    assert found["overlap"] > 0.02 * 0.0703
    assert (
        drive.simulate_gabion(replace(scene, settling=0.7))["overlap"] < 0.01 * 0.0703
    )  # what it says to do


def test_grains_of_given_vertices(tmp_path: Path) -> None:
    path = tmp_path / "wedge.csv"
    path.write_text("x [mm],y [mm],z [mm]\n0,0,0\n8,0,0\n0,5,0\n0,0,4\n8,0,3\n")
    scene = Gabion(grains=2, side=0.15, settling=0.01, hold=0.01, dispersion=0.0, vertices=str(path))
    packing = drive.pack(scene)
    for shape in packing.shapes:
        assert len(shape.points) == 5 and mass_of(shape).volume == pytest.approx(3.47e-4, rel=1e-12)
    path.write_text("x,y,z\n0,0,0\n8,0,0\n0,5,0\n3,3,0\n")
    with pytest.raises(
        StudyError, match=r"wedge\.csv: the vertices of a grain are at least 4 .*, found 4 in a plane"
    ):
        drive.pack(scene)
    path.write_text("x,y,z\n" + 4 * "1,1,1\n")
    with pytest.raises(StudyError, match=r"wedge\.csv: .*, found 4 in a plane"):
        drive.pack(scene)


def test_what_cannot_be_packed_is_refused_or_fails_with_the_reason() -> None:
    with pytest.raises(StudyError, match=r"would fill 1\.1 of a box of 0\.2 m.*larger box or fewer grains"):
        Gabion(grains=26, side=0.2)
    with pytest.raises(
        SimulationError, match=r"cannot be packed: after 0\.02 s the box still measures .* 0\.2 m"
    ):
        drive.simulate_gabion(Gabion(**SMALL | {"patience": 0.02}))
