"""Replays: what may be shown, the third interface of a simulator, and `tamis sim --storyboard`."""

import textwrap
import time

import numpy as np
import pytest

import tamis
from tamis.cli.main import main
from tamis.replays import Replay, Replayable, Shape

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))

MODEL = """
    import numpy as np
    import tamis
    from tamis.replays import Replay, Shape

    @tamis.simulator(outputs={"z": "m"}, inputs={"h": tamis.Port("h", bounds=(0, 10), unit="m")})
    def ball(*, h=1.0, n=3):
        '''A ball that falls for 1 s, or for n ms.'''
        return {"z": h}

    @ball.replay
    def show(*, h, n, fps):
        if h == 7:
            raise tamis.SimulationError("it broke")
        if h == 8:
            return [1, 2]
        if h == 9:
            1 / 0
        if h == 6:
            import os, signal
            os.kill(os.getpid(), signal.SIGSEGV)
        if h == 5:
            raise SystemExit(0)
        end = 1.0 if n == 3 else 1e-3 * n
        t = np.linspace(0.0, end, max(2, round(fps * end) + 1))
        poses = np.zeros((len(t), 2, 7))
        poses[..., 3] = 1.0
        poses[:, 1, 2] = h + 0.1 - 0.5 * h * (t / end) ** 2
        speed = np.column_stack([np.full(len(t), np.nan), h * t])
        return Replay((Shape("halfspace"), Shape("sphere", (0.1,), "ball")), t, poses, {"speed [m/s]": speed})

    @tamis.simulator(outputs={"z": "m"})
    def blind(*, h):
        return {"z": h}
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def at_rest(shapes, times=(0.0, 1.0)):
    poses = np.zeros((len(times), len(shapes), 7))
    poses[..., 3] = 1.0
    return Replay(tuple(shapes), np.array(times), poses)


def test_poses_are_kept_in_single_precision():
    replay = at_rest([Shape("sphere", (1.0,))])
    assert replay.poses.dtype == np.float32 and replay.times.dtype == np.float64
    assert Shape("convex", points=TETRAHEDRON.tolist(), faces=FACES).points.shape == (4, 3)
    assert Shape("capsule", (0.1, 0.0)).size == (0.1, 0.0)  # a sphere by another name


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ball", {"size": (1.0,)}, 'no shape "ball"; valid names: box, capsule'),
        ("spheer", {"size": (1.0,)}, 'did you mean "sphere"'),
        ("box", {"size": (1.0, 1.0)}, r"box: expected size \(edge along x, edge along y, edge along z\)"),
        ("halfspace", {"size": (1.0,)}, r"halfspace: expected size \(\)"),
        ("cylinder", {"size": (1.0, -2.0)}, "cylinder: length must be positive, found -2"),
        ("sphere", {"size": (float("nan"),)}, "sphere: radius must be positive, found nan"),
        ("ring", {"size": (0.0,)}, "ring: radius must be positive"),
        ("sphere", {"size": (1.0,), "points": TETRAHEDRON}, "only a convex shape or a line has points"),
        ("convex", {}, r"at least four finite points \(n, 3\), found shape \(0,\)"),
        ("convex", {"points": TETRAHEDRON}, "at least four faces"),
        ("convex", {"points": TETRAHEDRON, "faces": ((0, 1, 9), *FACES[1:])}, "numbers below 4"),
        ("disk", {"size": ()}, r"disk: expected size \(radius\)"),
        ("line", {"points": TETRAHEDRON[:1]}, r"line: expected at least two finite points \(n, 3\)"),
        ("line", {"points": TETRAHEDRON, "faces": ((0, 4),)}, "line: expected strands, each of two or more"),
    ],
)
def test_shapes_that_cannot_be(kind, options, message):
    with pytest.raises(tamis.StudyError, match=message):
        Shape(kind, **options)


def test_replays_that_cannot_be():
    ball = (Shape("sphere", (1.0,)),)
    good = np.tile([0, 0, 0, 1.0, 0, 0, 0], (2, 1, 1))
    with pytest.raises(tamis.StudyError, match="at least one shape"):
        Replay((), np.arange(2.0), good)
    with pytest.raises(tamis.StudyError, match="increasing"):
        Replay(ball, np.zeros(2), good)
    with pytest.raises(tamis.StudyError, match=r"expected \(2, 1, 7\).*found \(1, 1, 7\)"):
        Replay(ball, np.arange(2.0), good[:1])
    with pytest.raises(tamis.StudyError, match=r"unit quaternions .* at instant 1, shape 0"):
        Replay(ball, np.arange(2.0), good * np.array([1.0, 1.1])[:, None, None])
    with pytest.raises(tamis.StudyError, match="finite positions"):
        Replay(ball, np.arange(2.0), np.where(np.arange(7) == 2, np.nan, good))
    with pytest.raises(tamis.StudyError, match=r'field "speed".*expected \(2, 1\).*found \(2,\)'):
        Replay(ball, np.arange(2.0), good, {"speed": np.zeros(2)})


def test_a_replay_comes_back_from_its_file(tmp_path):
    shapes = [
        Shape("disk", (0.1,), "grains"),
        Shape("line", points=TETRAHEDRON, faces=((0, 1, 2), (2, 3))),
        Shape("convex", points=TETRAHEDRON / 3, faces=FACES),
        Shape("disk", (0.1,), "grains"),
        Shape("box", (0.1, 0.2, 0.3)),
    ]
    rest = at_rest(shapes, (0.0, 0.1, 1 / 3))
    rest = Replay(
        rest.shapes, rest.times, rest.poses, {"speed [m/s]": np.arange(15.0).reshape(3, 5) / 3}, 20.0
    )
    rest.save(tmp_path / "a.replay")
    found = Replay.load(tmp_path / "a.replay")
    assert found.times.tobytes() == rest.times.tobytes() and found.poses.tobytes() == rest.poses.tobytes()
    np.testing.assert_array_equal(found.fields["speed [m/s]"], rest.fields["speed [m/s]"].astype(np.float32))
    for a, b in zip(found.shapes, rest.shapes, strict=True):
        assert (a.kind, a.size, a.group, a.faces) == (b.kind, b.size, b.group, b.faces)
        np.testing.assert_array_equal(a.points, b.points)
    assert found.to_bytes() == rest.to_bytes() and found.enlarged == 20.0
    content = (tmp_path / "a.replay").read_bytes()
    for damaged in (
        b"",
        b"PK",
        content[:40],
        content[:-8],
        b"x" + content[1:],
        content.replace(b"disk", b"dish"),
    ):
        with pytest.raises(tamis.StudyError, match=r"no replay, or a damaged one|no shape"):
            Replay.from_bytes(damaged)
    with pytest.raises(tamis.StudyError, match="cannot be read"):
        Replay.load(tmp_path / "b.replay")


def test_a_large_replay_loads_in_a_moment(tmp_path):
    poses = np.zeros((500, 5000, 7), dtype=np.float32)
    poses[..., 3] = 1.0
    disks = tuple(Shape("disk", (0.01 + 1e-6 * i,)) for i in range(5000))
    Replay(disks, np.arange(500.0), poses).save(tmp_path / "a.replay")
    start = time.perf_counter()
    Replay.load(tmp_path / "a.replay")
    assert time.perf_counter() - start < 1.0  # 0.15 s alone
    assert (tmp_path / "a.replay").stat().st_size < 7.1e7


def test_the_door_gets_complete_inputs(model):
    ball = tamis.find("model.py:ball", model)
    replay = ball.replay({"h": 2}, 10.0)
    assert isinstance(ball, Replayable) and len(replay.times) == 11
    assert replay.poses[0, 1, 2] == np.float32(2.1)
    with pytest.raises(tamis.StudyError, match='no input "hh"; did you mean "h"'):
        ball.replay({"hh": 2.0}, 10.0)
    with pytest.raises(tamis.StudyError, match="fps must be positive, found 0"):
        ball.replay({}, 0.0)
    with pytest.raises(tamis.StudyError, match=r"expected a tamis.replays.Replay, found list"):
        ball.replay({"h": 8}, 10.0)
    with pytest.raises(tamis.SimulationError, match="outside"):
        ball.replay({"h": 11}, 10.0)


def test_no_door_is_said_before_anything_else(model):
    blind = tamis.find("model.py:blind", model)
    with pytest.raises(tamis.StudyError, match=r"simulator model.py:blind has no replay.*@NAME.replay"):
        blind.replay({}, 10.0)  # an input is missing too


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<svg"), ("a.PDF", b"%PDF")])
def test_the_command_line_draws(model, name, start, capsys):
    assert main(["sim", "model.py:ball", "h=2", "--storyboard", name]) == 0
    assert capsys.readouterr().out == f"{name}: 6 frames over 1 s\n"
    first = (model / name).read_bytes()
    assert first.startswith(start)
    assert main(["sim", "model.py:ball", "h=2", "--storyboard", name]) == 0
    assert (model / name).read_bytes() == first
    assert sorted(p.name for p in model.iterdir() if p.is_file()) == sorted([name, "model.py"])


def test_without_inputs_the_defaults_are_drawn_and_a_field_colours(model, capsys):
    assert main(["sim", "model.py:ball", "--storyboard", "a.svg", "--field", "speed"]) == 0
    assert "speed [m/s]" in (model / "a.svg").read_text()
    assert main(["sim", "model.py:ball", "--storyboard", "a.svg", "--field", "sped"]) == 2
    assert 'no field "sped"; did you mean "speed [m/s]"?' in capsys.readouterr().err


def test_the_title_gives_inputs_with_units_and_whole_numbers_as_such(model):
    assert main(["sim", "model.py:ball", "h=2", "n=10", "--storyboard", "a.svg"]) == 0
    assert "model.py:ball: h = 2 m, n = 10<" in (model / "a.svg").read_text()


def test_what_a_simulator_warns_of_is_told_beside_its_picture(model, capsys):
    path = model / "model.py"
    warns = "import warnings\n    warnings.warn('the step is coarse', tamis.TamisWarning)\n    "
    path.write_text(path.read_text().replace("if h == 7:", warns + "if h == 7:"))
    assert main(["sim", "model.py:ball", "--storyboard", "a.svg"]) == 0
    assert capsys.readouterr().err == "warning: the step is coarse\n"


def test_what_is_over_in_a_moment_is_shown_in_slow_motion(model):
    assert main(["sim", "model.py:ball", "n=10", "--storyboard", "a.svg"]) == 0
    text = (model / "a.svg").read_text()
    assert all(f"t = {k} ms" in text for k in (0, 2, 4, 6, 8, 10))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["model.py:ball", "--storyboard", "a.jpg"], 2, "ends in .png, .svg, .pdf"),
        (["model.py:ball", "--storyboard", "a"], 2, "ends in .png, .svg, .pdf"),
        (["model.py:ball", "--storyboard", "no/a.png"], 2, 'no folder "no"'),
        (["model.py:ball", "--storyboard", "folder.png"], 2, "is a folder"),
        (["model.py:ball", "h=8", "--storyboard", "a.png"], 2, "expected a tamis.replays.Replay"),
        (
            ["model.py:ball", "h=9", "--storyboard", "a.png"],
            2,
            "ZeroDivisionError: division by zero (model.py",
        ),
        (["model.py:ball", "h=6", "--storyboard", "a.png"], 2, "the process ended during the run: SIGSEGV"),
        (["model.py:ball", "h=5", "--storyboard", "a.png"], 2, "replay of model.py:ball: SystemExit: 0"),
        (["model.py:ball", "h=7", "--storyboard", "a.png"], 1, "it broke"),
        (["model.py:ball", "h=up", "--storyboard", "a.png"], 2, "must be a number"),
        (["model.py:blind", "h=1", "--storyboard", "a.png"], 2, "has no replay"),
        (["--storyboard", "a.png"], 2, "expected tamis sim NAME"),
        (["model.py:ball", "--field", "speed"], 2, "expected tamis sim NAME"),
    ],
)
def test_requests_that_cannot_be_met(model, arguments, code, message, capsys):
    (model / "folder.png").mkdir()
    assert main(["sim", *arguments]) == code
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
    assert not (model / "a.png").exists()
