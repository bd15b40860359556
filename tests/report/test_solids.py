"""Solids as they are seen: faces, half-spaces, and what hides what."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tamis.replays import Shape
from tamis.report.camera import FRONT
from tamis.report.solids import (
    Solid,
    floor,
    hull,
    look,
    order,
    piece,
    rotations,
    slices,
    solid,
)
from tamis.types import Array
from tests.report.scenes import RNG, UP, posed, quaternion, wall


def nearest_by_rays(parts: list[Solid], poses: Array, at: Array) -> Array:
    """Return which box a line of sight meets first at each point of the picture, -1 for none; exact."""
    turn = rotations(poses[:, 3:].astype(float))
    start = at @ FRONT[:2] + 100.0 * FRONT[2]  # far on the viewer's side
    first = np.full(len(at), np.inf)
    found = np.full(len(at), -1)
    for i, part in enumerate(parts):
        origin = (start - poses[i, :3]) @ turn[i]
        way = -FRONT[2] @ turn[i]
        half = part.points.max(axis=0)
        with np.errstate(divide="ignore"):
            enter, leave = np.sort([(-half - origin) / way, (half - origin) / way], axis=0)
        near, far = enter.max(axis=1), leave.min(axis=1)
        hit = (near < far) & (near < first)
        first[hit], found[hit] = near[hit], i
    return found


def painted_last(parts: list[Solid], poses: Array, sequence: list[int], at: Array) -> Array:
    """Return which box is painted last at each point of the picture."""
    seen = look(parts, poses, FRONT)
    found = np.full(len(at), -1)
    for i in sequence:
        outline = hull(seen.points[i, :, :2])
        edges = np.roll(outline, -1, axis=0) - outline
        away = at[:, None] - outline
        inside = (edges[:, 0] * away[..., 1] > edges[:, 1] * away[..., 0]).all(axis=1)
        found[inside] = i
    return found


def loose_boxes() -> tuple[list[Shape], Array]:
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    turned = RNG.normal(size=(len(grid), 4))
    turned /= np.linalg.norm(turned, axis=1)[:, None]
    sizes = RNG.uniform(0.15, 0.5, size=(len(grid), 3))  # diagonals below 0.87, so that boxes cannot touch
    return [Shape("box", tuple(s)) for s in sizes], posed(grid, turned)


def plank_and_blocks() -> tuple[list[Shape], Array]:
    shapes = [Shape("box", (4.0, 0.3, 0.1))] + [Shape("box", (0.3, 0.3, 0.3))] * 4
    return shapes, posed(
        np.array([[0, 0, 0], [-1.8, 0, 0.2], [1.8, 0.3, 0.1], [-1.8, -0.3, 0], [1.7, 0, -0.2]])
    )


@pytest.mark.parametrize("scene", [lambda: wall(7, 6), loose_boxes, plank_and_blocks])
def test_the_painted_picture_is_what_rays_of_sight_meet(scene) -> None:
    shapes, poses = scene()
    parts = [solid(shape) for shape in shapes]
    seen = look(parts, poses, FRONT)
    low, high = seen.low.min(axis=0)[:2], seen.high.max(axis=0)[:2]
    at = RNG.uniform(low, high, size=(4000, 2))
    truth = nearest_by_rays(parts, poses, at)
    np.testing.assert_array_equal(painted_last(parts, poses, order(parts, seen), at), truth)
    by_depth = [int(i) for i in np.argsort(seen.points[..., 2].mean(axis=1))]
    if scene is not loose_boxes:  # the rule that would be simpler is not good enough
        assert (painted_last(parts, poses, by_depth, at) != truth).any()


def test_shapes_of_other_kinds_rest_on_each_other_in_order() -> None:
    shapes = [
        Shape("box", (3.0, 0.5, 0.1)),
        Shape("sphere", (0.2,)),
        Shape("cylinder", (0.2, 0.4)),
        Shape("capsule", (0.2, 0.3)),
    ]
    places = np.array([[0, 0, 0.05], [-1.3, 0.1, 0.3], [0.0, 0.1, 0.3], [-0.6, 0.1, 0.45]])
    parts = [solid(shape) for shape in shapes]
    assert order(parts, look(parts, posed(places), FRONT))[0] == 0
    places[1:, 2] = [-0.2, -0.2, -0.35]  # hanging below it
    assert order(parts, look(parts, posed(places), FRONT))[-1] == 0


def test_a_ring_of_shapes_that_hide_each_other_is_cut() -> None:
    places, turned = (
        [],
        [],
    )  # a triangle of planks in the plane of the picture, each with one end over the next
    for k in range(3):
        around = Rotation.from_euler("z", 120 * k, degrees=True)
        x, y, z, w = (Rotation.from_matrix(FRONT.T) * around * Rotation.from_euler("y", -0.2)).as_quat()
        places.append(FRONT.T @ around.apply([0.0, -0.3, 0.0]))
        turned.append([w, x, y, z])
    parts = [solid(Shape("box", (1.6, 0.1, 0.05)))] * 3
    seen = look(parts, posed(np.array(places), np.array(turned)), FRONT)
    ends = seen.points[..., 2].max(axis=1)
    np.testing.assert_allclose(ends, ends[0], rtol=1e-6)  # none is nearer than the others; single precision
    pairs = [
        order(parts[:2], look(parts[:2], posed(np.array(places)[[a, b]], np.array(turned)[[a, b]]), FRONT))
        for a, b in ((0, 1), (1, 2), (2, 0))
    ]
    assert pairs == [[1, 0]] * 3
    assert sorted(order(parts, seen)) == [0, 1, 2]


def test_a_bar_through_a_plate_is_seen_on_both_sides_and_its_ring_where_it_shows() -> None:
    across = quaternion((1, 0, 0), np.pi / 2)  # along y, away from the viewer
    bar = slices(solid(Shape("cylinder", (0.05, 1.0))))
    assert len(bar) == 20 and sum(len(part.faces) - 32 for part in bar) == 2  # the two ends are kept
    ring = solid(Shape("ring", (0.1,)))
    parts = [solid(Shape("box", (0.5, 0.2, 0.5))), ring, *bar, ring]
    turned, places = np.array([UP, *[across] * 22]), np.zeros((23, 3))
    places[1, 1] = -0.1  # in the face; the last one is buried in the plate
    sequence = order(parts, look(parts, posed(places, turned), FRONT))
    plate = sequence.index(0)
    assert sequence.index(1) > plate > sequence.index(22)
    y = np.array([rotations(across)[1] @ part.points.mean(axis=0) for part in bar])
    later = np.array([sequence.index(2 + k) > plate for k in range(20)])
    assert later[y < -0.1].all() and not later[y > -0.09].any()


def test_a_crowd_is_painted_by_depth() -> None:
    parts = [solid(Shape("sphere", (0.1,)))] * 4100
    seen = look(parts, posed(RNG.uniform(size=(4100, 3))), FRONT)
    np.testing.assert_array_equal(order(parts, seen), np.argsort(seen.points[:, 0, 2]))


# geometry


def test_the_camera_sees_x_to_the_right_and_z_up() -> None:
    np.testing.assert_allclose(FRONT @ FRONT.T, np.eye(3), atol=1e-15)  # a rotation, to round-off
    assert np.linalg.det(FRONT) > 0
    assert FRONT[0, 0] > 0.9 and FRONT[0, 2] == 0 and FRONT[1, 2] > 0.9
    assert FRONT[2, 1] < 0 < FRONT[2, 2]  # from the front and above


def test_quaternions_turn_as_they_say() -> None:
    quarter = rotations(quaternion((0, 0, 1), np.pi / 2))
    np.testing.assert_allclose(quarter @ [1, 0, 0], [0, 1, 0], atol=1e-15)


def test_faces_look_outward_whichever_way_they_are_listed() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    faces = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    diagonal = 3**-0.5
    wanted = [[0, 0, -1], [0, -1, 0], [-1, 0, 0], [diagonal] * 3]
    for listed in (faces, tuple(face[::-1] for face in faces)):
        made = solid(Shape("convex", points=points, faces=listed))
        np.testing.assert_allclose(made.normals, wanted, atol=1e-15)
    assert len(solid(Shape("box", (1, 2, 3))).axes) == 3
    assert solid(Shape("box", (2, 4, 4))).reach == 3.0
    assert solid(Shape("capsule", (0.5, 2.0))).reach == 1.5


def test_hull_drops_what_is_inside_or_in_line() -> None:
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    inside = np.array([[0.5, 0.0], [0.5, 0.5], [1, 0.3]])
    np.testing.assert_array_equal(hull(np.vstack([inside, square])), square)


def test_half_spaces_cut_each_other_and_show_their_free_side_only() -> None:
    around = np.array([[-1.0, -1, 0], [1, 1, 1]])
    ground = floor(posed(np.zeros(3))[0])
    wall_at_0 = floor(posed(np.zeros(3), quaternion((0, 1, 0), np.pi / 2))[0])  # free where x > 0
    whole, half = piece(ground, around, 0.5, [], FRONT), piece(ground, around, 0.5, [wall_at_0], FRONT)
    assert whole is not None and half is not None
    np.testing.assert_allclose(np.ptp(whole @ [1, 0]), 3 * (FRONT[0, 0] + FRONT[0, 1]))
    np.testing.assert_allclose(np.ptp(half @ [1, 0]), 1.5 * FRONT[0, 0] + 3 * FRONT[0, 1])
    assert piece(wall_at_0, around, 0.5, [], FRONT) is not None
    ceiling = floor(posed(np.zeros(3), quaternion((1, 0, 0), np.pi))[0])
    assert piece(ceiling, around, 0.5, [], FRONT) is None


# the figure
