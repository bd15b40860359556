"""The camera of storyboards: on the free side of slopes, where what moves is not hidden, and the same every time."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tamis.replays import Replay, Shape
from tamis.report import storyboard as frames
from tamis.report.camera import FRONT, VIEWS, best_view, camera
from tamis.report.solids import Solid, floor, rotations, solid
from tamis.types import Array

UP = (1.0, 0.0, 0.0, 0.0)


def posed(positions: Array, quaternion: Array | tuple[float, ...] = UP) -> Array:
    turned = np.broadcast_to(quaternion, (*positions.shape[:-1], 4))
    return np.concatenate([positions, turned], axis=-1).astype(np.float32)


def ball_and_wall(way: Array) -> tuple[list[Solid], Array, Array]:
    """Return a wall at y = 0, along x, and a ball that goes some way from its middle."""
    places = np.zeros((6, 2, 3))
    places[:, 1] = np.linspace(0.0, 1.0, 6)[:, None] * way
    moved = np.zeros((6, 2), dtype=bool)
    moved[1:, 1] = True
    return [solid(Shape("box", (6.0, 0.2, 3.0))), solid(Shape("sphere", (0.3,)))], posed(places), moved


def test_the_axes_of_every_view_are_orthonormal_and_none_is_upside_down() -> None:
    for view in VIEWS:
        np.testing.assert_allclose(view @ view.T, np.eye(3), atol=1e-15)
        assert np.linalg.det(view) > 0 and view[1, 2] > 0 and view[2, 2] > 0
    np.testing.assert_allclose(camera(0, 0), [[1, 0, 0], [0, 0, 1], [0, -1, 0]], atol=1e-15)


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("azimuth", range(0, 360, 10))
def test_the_camera_is_on_the_free_side_of_a_slope(azimuth: int, moves: bool) -> None:
    a, half = np.radians(azimuth), np.radians(15)  # falls off by 30 degrees in the direction a
    turn = np.array([np.cos(half), -np.sin(half) * np.sin(a), np.sin(half) * np.cos(a), 0.0])
    surface = floor(posed(np.zeros(3), turn))
    assert surface.normal[:2] @ [np.cos(a), np.sin(a)] == pytest.approx(0.5)
    down = rotations(turn) @ [np.cos(a), np.sin(a), 0.0]
    poses = posed(np.linspace(0.0, 1.0, 6)[:, None, None] * down, turn)
    moved = np.full((6, 1), moves)
    view = best_view([solid(Shape("box", (0.3, 0.3, 0.2)))], poses, moved, [surface])
    assert view[2] @ surface.normal > 0.2
    if moves:
        assert np.linalg.norm(view[:2] @ down) > 0.7  # and the way down is seen, not looked along


def test_what_goes_behind_a_wall_is_seen_from_behind() -> None:
    for side in (1.0, -1.0):
        view = best_view(*ball_and_wall(np.array([0.0, 3.0 * side, 0.0])), [])
        assert view[2, 1] * side > 0


def test_the_front_is_kept_where_it_is_nearly_as_good_or_nothing_moves() -> None:
    for way in ([3.0, 0.0, 0.0], [3.0, 0.5, 0.0], [0.0, 0.0, 5.0]):
        solids, poses, moved = ball_and_wall(np.array(way))
        assert best_view(solids[1:], poses[:, 1:], moved[:, 1:], []) is FRONT
    assert best_view(solids, poses, np.zeros_like(moved), []) is FRONT


def test_in_a_box_of_half_spaces_as_many_as_can_be_are_seen() -> None:
    walls = []
    for a in np.radians([0, 90, 180, 270]):
        turn = np.array([np.sqrt(0.5), -np.sqrt(0.5) * np.sin(a), np.sqrt(0.5) * np.cos(a), 0.0])
        walls.append(floor(posed(np.array([-np.cos(a), -np.sin(a), 0.0]), turn)))
    view = best_view(*ball_and_wall(np.array([0.0, -3.0, 0.0])), walls)
    assert sum(view[2] @ wall.normal > 0 for wall in walls) == 2


def test_the_choice_is_the_same_every_time_and_quick() -> None:
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 5, size=(6, 300, 3))
    solids = [solid(Shape("box", (0.4, 0.2, 0.2)))] * 300
    moved = np.ones((6, 300), dtype=bool)
    start = time.process_time()
    first = best_view(solids, posed(places), moved, [])
    assert time.process_time() - start < 1.0  # some 0.1 s on one slow core
    assert best_view(solids, posed(places), moved, []) is first


@pytest.mark.parametrize("k", range(len(VIEWS)))
def test_the_directions_fit_below_the_frames_from_everywhere(k: int, monkeypatch) -> None:
    monkeypatch.setattr(frames, "best_view", lambda *_: VIEWS[k])
    figure = frames.storyboard(
        Replay((Shape("box", (1, 1, 1)),), np.zeros(1), posed(np.zeros((1, 1, 3)))), "box"
    )
    FigureCanvasAgg(figure).draw()
    frame, foot = figure.axes
    assert [text.get_text() for text in foot.texts if len(text.get_text()) == 1] == ["x", "y", "z"]
    boxes = [text.get_window_extent() for text in foot.texts if text.get_text()]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(box.y0 >= 0 and box.y1 <= frame.get_window_extent().y0 for box in boxes)


def test_what_is_flat_is_seen_from_straight_ahead() -> None:
    places = np.zeros((6, 2, 3))
    places[:, 1, 0] = np.linspace(1.0, 2.0, 6)
    moved = np.zeros((6, 2), dtype=bool)
    moved[1:, 1] = True
    for depth, straight in ((1e-3, True), (0.3, False)):
        bars = [solid(Shape("box", (1.0, depth, 0.2)))] * 2
        assert np.array_equal(best_view(bars, posed(places), moved, []), camera(0, 0)) == straight
