"""Storyboards: which instants, where it is drawn, and that nothing overlaps."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from tamis.errors import StudyError
from tamis.replays import Replay, Shape
from tamis.report.camera import FRONT, best_view, camera
from tamis.report.solids import (
    look,
    order,
    segments,
    solid,
)
from tamis.report.storyboard import instants, storyboard
from tamis.report.style import COLOURS, to_svg
from tamis.types import Array
from tests.report.scenes import RNG, UP, falling_box, posed, quaternion, still, wall


def polygons(figure: Figure, frame: int) -> PolyCollection:
    found = [c for c in figure.axes[frame].collections if isinstance(c, PolyCollection)]
    assert len(found) == 1
    return found[0]


def corners(figure: Figure, frame: int) -> Array:
    return np.vstack([path.vertices for path in polygons(figure, frame).get_paths()])


# what hides what


def test_instants_are_equally_spaced_with_both_ends() -> None:
    assert instants(np.linspace(0, 1, 26)) == [0, 5, 10, 15, 20, 25]
    assert instants(np.array([0.0, 0.1, 0.2, 0.9, 1.0])) == [
        0,
        2,
        3,
        4,
    ]  # unevenly sampled: in time, not in number
    assert instants(np.array([3.0])) == [0]


def test_six_frames_with_time_and_unit_one_camera_and_equal_aspect() -> None:
    figure = storyboard(falling_box(), "nscd.fall: h = 1")
    frames = figure.axes[:6]
    assert [ax.texts[0].get_text() for ax in frames] == [f"t = {k / 5:.1f} s" for k in range(6)]
    assert figure.texts[0].get_text() == "nscd.fall: h = 1"
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in frames}) == 1
    for ax in frames:
        width, height = figure.get_size_inches() * ax.get_position().size
        scale = [width / np.ptp(ax.get_xlim()), height / np.ptp(ax.get_ylim())]
        assert scale[0] == pytest.approx(scale[1], rel=1e-9)


def test_a_long_title_goes_on_in_lines_of_its_own() -> None:
    """Nothing of it is cut or parted from its value, and frames make room for it."""
    pairs = [f"input_{k} = {k} m" for k in range(16)]
    title = "silo: " + ", ".join(pair.replace(" ", "\xa0") for pair in pairs)
    figure, plain = storyboard(falling_box(), title), storyboard(falling_box(), "silo")
    lines = [text.get_text() for text in figure.texts if text.get_fontweight() == "bold"]
    assert len(lines) == 3 and " ".join(lines) == "silo: " + ", ".join(pairs)
    assert all(line.endswith("m,") for line in lines[:-1])
    heights = [f.get_size_inches()[1] for f in (figure, plain)]
    boxes = [f.axes[0].get_position().y1 * h for f, h in zip((figure, plain), heights, strict=True)]
    assert heights[0] - heights[1] == pytest.approx(0.32) and boxes[0] == pytest.approx(boxes[1])


def test_displacements_that_are_drawn_larger_than_they_are_are_said_to_be() -> None:
    plain, enlarged = falling_box(), replace(falling_box(), enlarged=20.0)
    assert "as large" not in storyboard(plain, "fall").texts[1].get_text()
    said = storyboard(enlarged, "fall").texts[1].get_text()
    assert said.startswith("displacements drawn 20 times as large as they are; strong colour")


def test_everything_is_inside_the_picture_at_every_instant() -> None:
    replay = falling_box()
    figure = storyboard(replay, "fall")
    for k in range(6):
        found = corners(figure, k)
        ax = figure.axes[k]
        assert ax.get_xlim()[0] < found[:, 0].min() and found[:, 0].max() < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < found[:, 1].min() and found[:, 1].max() < ax.get_ylim()[1]


def test_a_fall_of_one_metre_is_one_metre_seen_from_above() -> None:
    figure = storyboard(falling_box(), "fall")
    tops = [path.vertices.mean(axis=0) for k in (0, 5) for path in polygons(figure, k).get_paths()[-1:]]
    drop = tops[1] - tops[0]
    # single precision of poses around 1 m leaves some 1e-7
    np.testing.assert_allclose(drop, [0.2, 0, -1.0] @ FRONT[:2].T, atol=1e-6)
    assert abs(FRONT[1, 2] - np.cos(np.radians(20))) < 1e-15


def test_what_is_drawn_of_a_box_on_the_ground() -> None:
    figure = storyboard(falling_box(), "fall")
    assert len(polygons(figure, 0).get_paths()) == 1 + 1 + 3  # ground, shadow, three faces
    assert len(polygons(figure, 5).get_paths()) == 1 + 1 + 1 + 3  # it moved: a rim


def test_what_moved_is_stronger_and_rimmed() -> None:
    shapes, poses = wall(4, 3)
    moved = np.repeat(poses[None], 3, axis=0)
    moved[1, 5, 1] += 0.02  # less than a tenth of its diagonal
    moved[2, 5, 1] += 0.2
    moved[2, 6, 3:] = quaternion((0, 0, 1), 0.3)
    figure = storyboard(Replay(tuple(shapes), np.arange(3.0), moved), "wall")
    counts = [len(polygons(figure, k).get_paths()) for k in range(3)]
    assert counts[0] == counts[1] == 12 * 3 and counts[2] == 12 * 3 + 2
    widths = [np.unique(polygons(figure, k).get_linewidths()) for k in range(3)]
    assert len(widths[1]) == 1 and widths[2].max() > 2 * widths[1].max()
    palest = [polygons(figure, k).get_facecolors()[:, :3].min() for k in range(3)]
    assert palest[2] < palest[1] == palest[0]


def test_a_turn_of_either_sign_of_the_quaternion_is_the_same() -> None:
    poses = np.repeat(posed(np.zeros(3))[None], 2, axis=0)
    poses[1, :, 3:] *= -1.0
    figure = storyboard(Replay((Shape("box", (1, 1, 1)),), np.arange(2.0), poses), "box")
    assert len(polygons(figure, 1).get_paths()) == 3


def test_groups_have_the_colours_of_the_legend() -> None:
    shapes = [Shape("sphere", (0.1,), f"group {k}") for k in range(8)]
    figure = storyboard(still(shapes, posed(np.arange(24.0).reshape(8, 3))), "groups")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"group {k}" for k in range(8)]
    colours = [handle.get_facecolor()[:3] for handle in legend.get_patches()]
    assert colours[:6] == [to_rgb(c) for c in COLOURS] and len(set(colours)) == 8
    many = [Shape("sphere", (0.1,), f"group {k}") for k in range(12)]
    figure = storyboard(still(many, posed(np.arange(36.0).reshape(12, 3))), "groups")
    assert figure.legends[0].get_texts()[-1].get_text() == "and 3 more"
    assert not storyboard(falling_box(), "one group").legends
    two = [Shape("sphere", (0.1,), group) for group in ("ground", "default")]
    figure = storyboard(still(two, posed(np.arange(6.0).reshape(2, 3))), "groups")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ground", "bodies"]


def test_a_field_colours_and_has_a_bar() -> None:
    figure = storyboard(falling_box(), "fall", field="speed")
    bar = figure.axes[-1]
    assert bar.get_xlabel() == "speed [m/s]" and bar.get_xlim() == (0.0, 1.0)
    first, last = (polygons(figure, k).get_facecolors()[-3:, :3] for k in (0, 5))
    assert (first.sum(axis=1) > last.sum(axis=1)).all()  # little is light
    with pytest.raises(StudyError, match='no field "sped"; did you mean'):
        storyboard(falling_box(), "fall", field="sped")
    with pytest.raises(StudyError, match="none is defined here"):
        storyboard(still([Shape("sphere", (1.0,))], posed(np.zeros(3))), "ball", field="speed")


def test_a_shape_without_the_field_is_grey_and_a_constant_field_is_no_accident() -> None:
    replay = still([Shape("box", (1, 1, 1))] * 2, posed(np.array([[0, 0, 0], [2, 0, 0.0]])))
    field = {"force": np.array([[np.nan, 5.0]] * 2)}
    figure = storyboard(Replay(replay.shapes, replay.times, replay.poses, field), "boxes", field="force")
    grey = polygons(figure, 0).get_facecolors()[:3, :3]
    assert (np.ptp(grey, axis=1) < 1e-12).all()
    assert figure.axes[-1].get_xlim() == (5.0, 10.0)


def test_the_scale_bar_is_as_long_as_it_says() -> None:
    figure = storyboard(falling_box(), "fall")
    foot = figure.axes[6]
    line, label = foot.lines[0], foot.texts[0].get_text()
    ax = figure.axes[0]
    scale = figure.get_size_inches()[0] * ax.get_position().width / np.ptp(ax.get_xlim())
    assert label.endswith(" m")
    assert np.ptp(line.get_xdata()) / scale == pytest.approx(float(label.split()[0]), rel=1e-9)
    inches = figure.get_size_inches()[0] * foot.get_position().width
    assert np.ptp(foot.get_xlim()) == pytest.approx(inches, rel=1e-9)


def test_a_huge_thing_at_rest_does_not_shrink_the_rest() -> None:
    replay = falling_box()
    poses = np.concatenate([replay.poses, np.repeat(posed(np.array([0, 0, -5.0]))[None], 26, axis=0)], axis=1)
    shapes = (*replay.shapes, Shape("box", (100.0, 100.0, 10.0), "earth"))
    small, large = storyboard(replay, "fall"), storyboard(Replay(shapes, replay.times, poses), "fall")
    assert large.axes[0].get_xlim() == small.axes[0].get_xlim()
    moving = Replay(shapes, replay.times, poses + np.where(np.arange(7) == 0, replay.times[:, None, None], 0))
    assert np.ptp(storyboard(moving, "fall").axes[0].get_xlim()) > 100


def test_fewer_instants_make_fewer_frames() -> None:
    for n in (1, 2, 4):
        figure = storyboard(falling_box(26 if n > 2 else 2) if n > 1 else still_box(), "fall")
        frames = [ax for ax in figure.axes if ax.collections]
        assert len(frames) == (6 if n > 2 else n)
    assert still_box().times.tolist() == [0.0]


def still_box() -> Replay:
    return still([Shape("box", (1, 1, 1))], posed(np.zeros(3)), n=1)


def test_nothing_but_half_spaces_is_refused() -> None:
    with pytest.raises(StudyError, match="nothing but half-spaces"):
        storyboard(still([Shape("halfspace")], posed(np.zeros(3))), "empty")


@pytest.mark.parametrize(
    ("end", "stamps"),
    [(2.0, ["t = 0.0 s", "t = 0.4 s"]), (5e-3, ["t = 0 ms", "t = 1 ms"]), (1e-5, ["t = 0 µs", "t = 2 µs"])],
)
def test_short_times_have_small_units(end: float, stamps: list[str]) -> None:
    replay = falling_box()
    figure = storyboard(Replay(replay.shapes, replay.times * end, replay.poses), "fall")
    assert [ax.texts[0].get_text() for ax in figure.axes[:2]] == stamps


def every_kind() -> Replay:
    faces = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    shapes = (
        Shape("halfspace", group="ground"),
        Shape("sphere", (0.2,), "a ball with a long name that does not fit"),
        Shape("box", (0.3, 0.3, 0.3), "box"),
        Shape("cylinder", (0.1, 0.4), "bar"),
        Shape("capsule", (0.1, 0.4), "pill"),
        Shape("convex", (), "stone", 0.3 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]), faces),
        Shape("ring", (0.15,), "box"),
        Shape("halfspace", group="wall"),
        Shape("sphere", (0.1,), "another ball"),
        Shape("sphere", (0.1,), "a third ball"),
    )
    t = np.linspace(0.0, 1.0, 6)
    poses = np.zeros((6, len(shapes), 7))
    for k in range(6):
        poses[k] = posed(np.column_stack([0.6 * np.arange(10), 0.1 * np.arange(10), np.full(10, 0.5 + t[k])]))
        poses[k, :, 3:] = quaternion((1, 1, 0), 2 * t[k])
    poses[:, 0] = posed(np.zeros(3))
    poses[:, 7] = posed(np.array([-1.0, 0, 0]), quaternion((0, 1, 0), np.pi / 2))
    return Replay(shapes, t, poses, {"kinetic energy [J]": poses[..., 2]})


@pytest.mark.parametrize("field", [None, "kinetic energy"])
@pytest.mark.parametrize("columns", [2, 3, 6])
def test_no_frames_or_words_overlap_and_none_leaves_the_page(columns: int, field: str | None) -> None:
    figure = storyboard(every_kind(), "a title as long as a list of inputs is, h = 1, " * 5, columns, field)
    drawing = FigureCanvasAgg(figure)
    drawing.draw()
    frames = [ax.get_position() for ax in figure.axes if ax.collections]
    assert len(frames) == 6
    assert not any(a.overlaps(b) for a, b in combinations(frames, 2))
    words = [text for ax in figure.axes for text in ax.texts if text.get_text()] + list(figure.texts)
    words += [text for legend in figure.legends for text in legend.get_texts()]
    words += [label for ax in figure.axes[7:] for label in (ax.xaxis.label, *ax.get_xticklabels())]
    boxes = [word.get_window_extent() for word in words]
    inside = figure.bbox
    for word, box in zip(words, boxes, strict=True):
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1, word.get_text()
        assert inside.y0 <= box.y0 and box.y1 <= inside.y1, word.get_text()
    for (a, first), (b, second) in combinations(zip(words, boxes, strict=True), 2):
        assert not first.overlaps(second), f"{a.get_text()} over {b.get_text()}"
    for word, box in zip(words, boxes, strict=True):
        for frame in frames:
            assert not frame.transformed(figure.transSubfigure).overlaps(box), word.get_text()


def test_three_hundred_boxes_take_less_than_three_seconds() -> None:
    shapes, poses = wall(20, 15)
    drift = np.linspace(0, 0.5, 6)[:, None, None] * RNG.uniform(size=(1, 300, 3))
    moving = np.concatenate([poses[None, :, :3] + drift, np.repeat(poses[None, :, 3:], 6, axis=0)], axis=-1)
    replay = Replay(tuple(shapes), np.arange(6.0), moving)
    start = time.process_time()
    FigureCanvasAgg(storyboard(replay, "wall")).draw()
    assert time.process_time() - start < 3.0  # the budget; some 0.9 s on one slow core


# disks and lines


def test_a_plane_motion_is_seen_from_straight_ahead() -> None:
    """Disks that stand in the plane of x and z, whichever way their normals point, and a floor as a line."""
    turns = [quaternion((1, 0, 0), sign * np.pi / 2) for sign in (1.0, -1.0)]
    poses = posed(np.array([[0.0, 2.0, 0.0], [0.3, 2.0, 0.1], [0.6, 2.0, 0.1]]), np.array([UP, *turns]))
    floor_line = Shape("line", points=np.array([[-1.0, 0, 0], [1.0, 0, 0]]))
    figure = storyboard(still([floor_line, Shape("disk", (0.1,)), Shape("disk", (0.1,))], poses), "plane")
    x, y = corners(figure, 0).T
    assert np.ptp(x) == pytest.approx(2.0) and np.ptp(y) == pytest.approx(0.2)  # true lengths along x and z
    drawn = polygons(figure, 0).get_facecolors()
    assert [tuple(face) for face in drawn].count((0.0, 0.0, 0.0, 0.16)) == 2  # the darker halves


def test_a_net_is_painted_before_and_behind_what_passes_through_it() -> None:
    grid = [[0.2 * i - 0.4, 0.0, 0.2 * k - 0.4] for k in range(5) for i in range(5)]
    strands = [tuple(5 * k + i for i in range(5)) for k in range(5)]
    strands += [tuple(5 * k + i for k in range(5)) for i in range(5)]
    net = segments(Shape("line", points=np.array(grid), faces=tuple(strands)))
    assert len(net) == 40 and {part.kind for part in net} == {"line"}
    ball = solid(Shape("sphere", (0.1,)))
    for side, first in ((-1.0, False), (1.0, True)):  # the viewer stands at negative y
        poses = posed(np.array([[0.0, 0.0, 0.0]] * 40 + [[0.05, 0.5 * side, 0.05]]))
        sequence = order([*net, ball], look([*net, ball], poses, FRONT))
        assert (sequence[0] == 40) is first and (sequence[-1] == 40) is not first


def rock_at_a_wall() -> Replay:
    """A wall along x, and a rock that comes from behind it and stays behind it, seen from the front."""
    shapes, poses = wall(6, 4)
    shapes = [Shape("box", shape.size, "wall") for shape in shapes]
    way = np.stack([np.vstack([poses, posed(np.array([1.0, 3.0 - s, 0.3]))]) for s in (0.0, 0.3, 0.6)])
    return Replay((*shapes, Shape("sphere", (0.2,), "rock")), np.arange(3.0), way)


def test_what_stands_still_before_a_lone_body_lets_it_through(monkeypatch) -> None:
    monkeypatch.setattr("tamis.report.storyboard.best_view", lambda *_: camera(0, 0))
    faces = polygons(storyboard(rock_at_a_wall(), "wall"), 2).get_facecolors()
    veiled = (faces[:, 3] > 0.25) & (faces[:, 3] < 0.35)
    assert 0 < veiled.sum() < 0.7 * len(faces)  # the blocks before the rock, not the whole wall
    clear = Replay(rock_at_a_wall().shapes[:-1], np.arange(3.0), rock_at_a_wall().poses[:, :-1])
    assert (polygons(storyboard(clear, "wall"), 2).get_facecolors()[:, 3] == 1.0).all()


def test_a_net_that_stands_before_a_lone_body_is_drawn_in_full(monkeypatch) -> None:
    monkeypatch.setattr("tamis.report.storyboard.best_view", lambda *_: camera(0, 0))
    strand = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    shapes = (Shape("sphere", (0.3,), "rock"), Shape("line", (), "net", strand, ((0, 1),)))
    poses = np.stack([posed(np.array([[0, y, 0.1], [0, -1.0, 0]])) for y in (2.0, 0.0)])
    faces = polygons(storyboard(Replay(shapes, np.arange(2.0), poses), "net"), 1).get_edgecolors()
    assert (faces[:, 3] > 0.9).any() and not ((faces[:, 3] > 0.0) & (faces[:, 3] < 0.7)).any()


def test_in_a_plane_nothing_stands_before_a_lone_disk() -> None:
    """A large disk that rises among small ones: none of them is nearer to the viewer, so none is seen through."""
    upright = quaternion((1, 0, 0), 0.5 * np.pi)
    grid = [(0.021 * i, 0.0, 0.01 + 0.021 * j) for j in range(3) for i in range(-3, 4)]
    grains = [place for place in grid if np.hypot(place[0], place[2] - 0.02) > 0.03]
    poses = posed(np.array([(0.0, 0.0, 0.02), *grains]), upright)
    later = poses.copy()
    later[0, 2] += 0.01
    disks = (Shape("disk", (0.02,), "nut"), *[Shape("disk", (0.01,), "grains")] * len(grains))
    drawn = polygons(storyboard(Replay(disks, np.arange(2.0), np.stack([poses, later])), "plane"), 1)
    assert set(drawn.get_facecolors()[:, 3].round(2).tolist()) == {
        0.16,
        1.0,
    }  # the darker halves, and the rest


def test_groups_can_be_seen_through() -> None:
    figure = storyboard(rock_at_a_wall(), "wall", through=("wall",))
    faces = polygons(figure, 0).get_facecolors()
    assert set(np.round(faces[:, 3], 2)) <= {0.0, 0.02, 0.12, 0.16, 1.0}  # glass, the rock and its shade
    assert (np.round(faces[:, 3], 2) == 0.12).sum() > 20
    with pytest.raises(StudyError, match='no group "wal"; did you mean "wall"'):
        storyboard(rock_at_a_wall(), "wall", through=("wal",))
    with pytest.raises(StudyError, match="nothing to look at"):
        storyboard(rock_at_a_wall(), "wall", through=("wall", "rock"))


def test_a_lone_rock_counts_as_much_as_all_the_blocks_it_throws() -> None:
    """Forty blocks go up, and can be seen from everywhere; the one rock only from its own side of a screen."""
    places = np.zeros((6, 42, 3))
    places[:, :40, 0] = np.linspace(-2.0, 2.0, 40)
    places[:, :40, 2] = 3.0 + np.linspace(0.0, 1.0, 6)[:, None]
    places[:, 40] = (0.0, 0.0, 1.0)
    places[:, 41, 1] = 1.0
    places[:, 41, 0] = np.linspace(0.0, 0.5, 6)
    solids = [solid(Shape("box", (0.1, 0.1, 0.1)))] * 40 + [
        solid(Shape("box", (6.0, 0.2, 3.0))),
        solid(Shape("sphere", (0.3,))),
    ]
    moved = np.ones((6, 42), dtype=bool)
    moved[:, 40] = moved[0] = False
    groups = ["block"] * 40 + ["screen", "rock"]
    assert best_view(solids, posed(places), moved, [], groups)[2, 1] > 0.0
    assert (
        best_view(solids, posed(places), moved, [])[2, 1] < 0.0
    )  # counted by shapes, the front is good enough


@pytest.mark.parametrize(("spheres", "images"), [(600, 0), (1200, 1)])  # five polygons each, of a lone frame
def test_thousands_of_polygons_are_kept_as_points(spheres: int, images: int) -> None:
    places = np.stack([np.arange(spheres) % 40, np.arange(spheres) // 40, np.zeros(spheres)], axis=1)
    crowd = still([Shape("sphere", (0.4,), "grain")] * spheres, posed(places), n=1)
    written = to_svg(storyboard(crowd, "grains"), "crowd")
    assert written.count("<image") == images
    assert len(written) < 4e6
