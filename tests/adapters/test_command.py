"""External programs: what is filled, what is run and what is read, and every way a program can fail."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.adapters.command import command, from_table
from tamis.cli.main import main
from tamis.errors import SimulationError, StudyError
from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore, paths
from tamis.simulation import described, find

SOLVER = Path(__file__).parents[1] / "models" / "solver.py"
HOWS = ["fine", "exit", "signal", "nothing", "garbage", "hang", "outside", "fifo", "nan", "ragged"]
OUTPUTS = {
    "t": {"file": "out.csv", "column": "time", "unit": "s"},
    "F": {"file": "out.csv", "column": "force", "unit": "N"},
}
INPUTS = {"a": {"default": 1.5, "bounds": [-10, 10]}, "how": {"default": "fine", "choices": HOWS}}


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    shutil.copy(SOLVER, folder)
    (folder / "deck.in").write_text("a = @a@\nhow = @how@\n")
    return folder


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def solver(base, **changes):
    table = {
        "run": ["./solver.py"],
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "templates": {"deck.in": "deck.txt"},
        "base": base,
    }
    return command(**{**table, **changes})


def echo(base, text, inputs=None, **changes):
    """Return a program that writes its filled template to its standard output, whose last number is read."""
    (base / "echo.in").write_text(text)
    return command(
        ["cat", "echo.txt"],
        inputs or {"a": {"default": 1.5}},
        {"z": {"file": "stdout", "format": "last"}},
        templates={"echo.in": "echo.txt"},
        base=base,
        **changes,
    )


# --- the contract


def test_the_contract_of_a_simulator(base, work):
    program = solver(base)
    tamis.check_simulator(program)
    out = program.run({"a": 0.1 + 0.2}, work)
    np.testing.assert_array_equal(out["F"], (0.1 + 0.2) * np.arange(4.0))  # all 17 digits went there and back
    assert program.outputs["F"].unit == "N" and program.missing() == ""
    with pytest.raises(StudyError, match='no input "b"'):
        program.run({"b": 1.0}, work)
    with pytest.raises(SimulationError, match="outside"):
        program.run({"a": 11.0}, work)


def test_the_address_is_what_a_study_writes_and_finds_the_same_program(base):
    table = {
        "run": ["./solver.py"],
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "templates": {"deck.in": "deck.txt"},
    }
    program = from_table(str(base), table)
    assert program.address == described("command", table, base)
    for twin in (find(program.address), pickle.loads(pickle.dumps(program))):
        assert (twin.address, twin.version, twin.line) == (program.address, program.version, program.line)
    assert solver(base).version == program.version


def test_the_version_follows_what_decides_the_results(base, tmp_path):
    first = solver(base, version="2").version
    assert first.startswith("2+")
    moved = shutil.copytree(base, tmp_path / "moved")
    assert solver(moved, version="2").version == first
    louder = {name: {**port, "doc": "words"} for name, port in INPUTS.items()}
    assert solver(base, version="2", inputs=louder, keep=True).version == first
    assert solver(base, version="2", exit_codes=[0, 3]).version != first
    assert solver(base, version="2", outputs={"t": OUTPUTS["t"]}).version != first
    (base / "mesh").write_text("1")
    with_mesh = solver(base, version="2", copy=["mesh"]).version
    (base / "mesh").write_text("2")
    assert first != with_mesh != solver(base, version="2", copy=["mesh"]).version
    (base / "deck.in").write_text("a = @a@\nhow = @how@\n\n")
    second = solver(base, version="2").version
    (base / "solver.py").write_text((base / "solver.py").read_text() + "# more\n")
    assert len({first, second, solver(base, version="2").version}) == 3


# --- marks


def test_marks_are_filled_as_asked(base, work):
    inputs = {"a": {"default": 2.5e-7}, "n": {"default": 3}, "w": {"default": "on", "choices": ["on", "off"]}}
    program = echo(base, "@a@ @a:%.2e@ @n:%04d@ @n@ <@w@> <@w:%5s@> me@@here 7\n", inputs)
    program.run({}, work)
    assert (work / "stdout").read_text() == "2.5e-07 2.50e-07 0003 3 <on> <   on> me@here 7\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x\n@aa@", 'echo.in, line 2: the mark @aa@ names no input "aa"; did you mean "a"?'),
        ("@a@ me@here", "line 1: an @ that is no mark @name@; write @@"),
        ("@a", "an @ that is no mark"),
        ("@a:6e@", "expected one format as in %.6e"),
        ("@a:%s@", "expected one format"),
        ("@a:%d@", "%d needs an input whose default is a whole number"),
        ("@a:%.6e %n@", "expected one format"),
        ("nothing", "inputs.a: read by nobody; write @a@"),
    ],
)
def test_a_wrong_mark_is_refused_when_the_study_is_loaded(base, text, message):
    with pytest.raises(StudyError) as caught:
        echo(base, text)
    assert message in str(caught.value)


def test_bytes_of_a_template_are_left_alone(base, work):
    (base / "deck.in").write_bytes(b"1 @a@ K\xf6ln\r\n")
    program = command(
        ["cat", "deck.txt"],
        {"a": {"default": 1.5}},
        {"z": {"file": "stdout", "format": "last"}},
        templates={"deck.in": "deck.txt"},
        base=base,
    )
    program.run({}, work)
    assert (work / "deck.txt").read_bytes() == b"1 1.5 K\xf6ln\r\n"


def test_arguments_are_filled_and_the_program_beside_the_study_is_run(base, work):
    (base / "add.sh").write_text("#!/bin/sh\necho $# $1\n")
    (base / "add.sh").chmod(0o755)
    program = command(
        ["./add.sh", "@a:%.3f@", "two words; touch pwned"],
        {"a": {"default": 1.5}},
        {"z": {"file": "stdout", "format": "last"}},
        base=base,
    )
    np.testing.assert_array_equal(program.run({}, work)["z"], [2.0, 1.5])
    assert not (work / "pwned").exists()


def test_a_file_input_is_an_absolute_path_and_is_read_beside_the_study(base, work, monkeypatch):
    (base / "load.txt").write_text("4.5\n")
    inputs = {"f": {"kind": "file", "default": "load.txt"}}
    program = command(["cat", "@f@"], inputs, {"z": {"file": "stdout", "format": "last"}}, base=base)
    assert program.run({}, work)["z"] == 4.5
    (work / "other").write_text("5.5\n")
    monkeypatch.chdir(work)
    assert program.run({"f": "other"}, work)["z"] == 5.5


# --- injection


@pytest.mark.parametrize(
    "name", ["x; touch pwned", "$(touch pwned)", "`touch pwned`", "a' b; touch pwned '", "-n"]
)
@pytest.mark.parametrize("shell", [False, True])
def test_a_value_is_never_code(base, work, name, shell):
    (base / name).write_text("3.5\n")
    run = "cat @f@ > copy && cat copy" if shell else ["cat", "@f@"]
    program = command(
        run,
        {"f": {"kind": "file"}},
        {"z": {"file": "stdout", "format": "last"}},
        base=base,
        shell=shell,
    )
    assert program.run({"f": str(base / name)}, work)["z"] == 3.5
    assert not [path for folder in (base, work) for path in folder.iterdir() if path.name == "pwned"]


@pytest.mark.parametrize(
    "line",
    ['cat "@f@"', "cat '@f@'", "cat \\@f@", "cat <<END\n@f@\nEND", "echo `cat @f@`", "echo $((@f@))"],
)
def test_where_quoting_does_not_protect_a_value_that_needs_it_is_refused(base, work, line):
    nasty = base / "$(touch pwned)"
    nasty.write_text("3.5\n")
    program = command(
        line, {"f": {"kind": "file"}}, {"z": {"file": "stdout", "format": "last"}}, base=base, shell=True
    )
    with pytest.raises(StudyError, match="would need quotes"):
        program.run({"f": str(nasty)}, work)
    assert not (work / "pwned").exists()


def test_numbers_may_stand_inside_quotes_of_a_shell_line(base, work):
    program = command(
        "awk 'BEGIN { print 2 * @a@ }'",
        {"a": {"default": -1.5e-3}},
        {"z": {"file": "stdout", "format": "last"}},
        base=base,
        shell=True,
    )
    assert program.run({}, work)["z"] == -3e-3


def test_a_line_break_in_a_file_name_is_refused(base, work):
    nasty = base / "x\n*INCLUDE"
    nasty.write_text("1\n")
    program = echo(base, "@f@", {"f": {"kind": "file"}})
    with pytest.raises(StudyError, match="holds a line break"):
        program.run({"f": str(nasty)}, work)


# --- the scratch folder is a fence


@pytest.mark.parametrize("name", ["../deck.txt", "/tmp/deck.txt", "a/../../b", ""])
def test_destinations_and_outputs_stay_inside(base, name):
    for change in ({"templates": {"deck.in": name}}, {"outputs": {"F": {**OUTPUTS["F"], "file": name}}}):
        with pytest.raises(StudyError, match="must lie inside the scratch folder"):
            solver(base, **change)


def test_two_files_may_not_take_one_name(base):
    for change in ({"copy": ["deck.in", "./deck.in"]}, {"templates": {"deck.in": "stdout"}}):
        with pytest.raises(StudyError, match="two files would be called"):
            solver(base, **change)


def test_a_link_left_behind_is_not_followed(base, work, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("gold")
    for name in ("deck.txt", "stdout", "out.csv"):
        (work / name).symlink_to(treasure)
    solver(base).run({}, work)
    assert treasure.read_text() == "gold"
    (tmp_path / "elsewhere").mkdir()
    (work / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SimulationError, match="link that leads out"):
        solver(base, templates={"deck.in": "sub/deck.txt"}).run({}, work)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_old_answer_is_not_taken_for_a_new_one(base, work):
    program = solver(base)
    program.run({}, work)
    with pytest.raises(SimulationError, match="wrote no file"):
        program.run({"how": "nothing"}, work)


def test_copies_are_placed_and_must_not_change_under_way(base, work, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "mesh").write_text("8 9\n")
    program = command(
        ["sh", "-c", "cat mesh", "@a@"],
        {"a": {"default": 1.0}},
        {"z": {"file": "stdout", "column": 2}},
        copy=["../shared/mesh"],
        base=base,
    )
    (work / "mesh").write_text("0 0\n")
    assert program.run({}, work)["z"] == 9.0
    (tmp_path / "shared" / "mesh").write_text("8 10\n")
    with pytest.raises(StudyError, match="has changed since the study was loaded"):
        program.run({}, work)
    with pytest.raises(StudyError, match="copy: no file"):
        solver(base, copy=["nowhere"])


# --- failures

FAULTS = {
    "exit": (SimulationError, "exit code 3, not 0; its last line on stderr: negative jacobian in element 7"),
    "signal": (ChildProcessError, "solver.py was ended by SIGSEGV; its last line on stderr: trouble: signal"),
    "nothing": (SimulationError, 'output t: the program wrote no file "out.csv"'),
    "garbage": (SimulationError, "output t: "),
    "outside": (SimulationError, "a link that leads out of the scratch folder"),
    "fifo": (SimulationError, '"out.csv" is not a file'),
    "nan": (SimulationError, 'output F: out.csv, line 4, column "force": nan is not a finite number'),
    "ragged": (SimulationError, "out.csv, line 6: expected 2 cells as in the header, found 1"),
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_failing_program_says_why(base, work, how, capfd):
    kind, message = FAULTS[how]
    with pytest.raises(kind) as caught:
        solver(base).run({"how": how}, work)
    assert message in str(caught.value)
    printed = capfd.readouterr().err
    assert "--- stdout\na is 1.5" in printed and f"trouble: {how}" in printed


def test_another_exit_code_may_mean_success(base, work):
    program = solver(base, exit_codes=[3], outputs={"z": {"file": "stdout", "format": "last"}})
    assert program.run({"how": "exit"}, work)["z"] == 1.5


def test_a_shell_tells_signals_and_missing_programs_apart(base, work):
    def shell(line):
        outputs = {"z": {"file": "stdout", "format": "last"}}
        return command(line, {"a": {"default": 1}}, outputs, base=base, shell=True)

    with pytest.raises(StudyError, match=r"cannot start what the study asks for.*no_such_program"):
        shell("no_such_program @a@").run({}, work)
    with pytest.raises(ChildProcessError, match="ended by SIGKILL"):
        shell("echo @a@; (kill -9 $(sh -c 'echo $PPID')); exit $?").run({}, work)
    with pytest.raises(SimulationError, match="exit code 1, not 0; it printed nothing"):
        shell("test 2 = @a@").run({}, work)


def test_a_study_loads_where_the_program_is_missing(base, work):
    program = solver(base, run=["no_such_program", "deck.txt"])
    assert program.missing() == (
        'run: the program "no_such_program" is not on PATH; install it, or extend PATH'
    )
    with pytest.raises(StudyError, match="not on PATH; install it"):
        program.run({}, work)
    assert 'write "./solver.py"' in solver(base, run=["solver.py"]).missing()
    assert solver(base, run=["./solvr.py"]).missing() == (
        f'run: there is no program "{base}/solvr.py"; did you mean "solver.py"?'
    )
    assert "there is no program" in solver(base, run=["bin/solver.py"]).missing()
    (base / "solver.py").chmod(0o644)
    assert "is not executable" in solver(base).missing()
    (base / "empty").write_text("")
    (base / "empty").chmod(0o755)
    with pytest.raises(StudyError, match=r"cannot start .*empty"):
        solver(base, run=["./empty"]).run({}, work)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": "./solver.py @a@"}, 'run: expected a list, run = ["./solver.py", "@a@"], or shell = true'),
        ({"run": ["./solver.py"], "shell": True}, "run: with shell = true, expected one string"),
        ({"run": []}, "run: expected a list"),
        ({"inputs": {"a": {"defualt": 1.0}}}, 'inputs.a: unknown key "defualt"; did you mean "default"?'),
        ({"inputs": {"a": {"kind": "choice"}}}, "a choice needs its words"),
        ({"inputs": {"a": {"default": "x"}}}, "is not a number"),
        ({"templates": {"nowhere.in": "deck.txt"}}, "templates: cannot read"),
        ({"outputs": {"F": {"column": "force"}}}, "outputs.F: say where it is found"),
        ({"outputs": {"F": {"file": "a.csv"}}}, "name the column"),
        ({"outputs": {"F": {"file": "a.csv", "colum": "x"}}}, 'unknown key "colum"; did you mean "column"?'),
        ({"outputs": {"F": {"file": "a.json"}}}, "name the value"),
        ({"outputs": {"F": {"file": "a.dat"}}}, "counted from 1"),
        ({"outputs": {"F": {"file": "a.dat", "column": 0}}}, "counted from 1, found 0"),
        ({"outputs": {"F": {"file": "a.dat", "column": "x"}}}, "counted from 1, found 'x'"),
        ({"outputs": {"F": {"file": "a.dat", "format": "tabel"}}}, 'did you mean "table"?'),
        ({"outputs": {"F": {"file": "a.json", "key": "a", "after": "x"}}}, 'takes no "after"'),
    ],
)
def test_a_wrong_table_is_refused(base, change, message):
    with pytest.raises(StudyError) as caught:
        solver(base, **change)
    assert message in str(caught.value)


# --- in a campaign


def alive(name):
    """Return the processes whose working folder lies below this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str((folder / "cwd").readlink()).startswith(str(name)):
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_a_campaign_records_failures_and_keeps_their_folders(base, tmp_path):
    store = RunStore(tmp_path / "runs")
    hows = ["fine", "exit", "signal", "nan", "hang"]
    runs = evaluate(solver(base), [{"how": how} for how in hows], store, executor=1, timeout=4)
    assert [run.status for run in runs] == ["done", "failed", "crashed", "failed", "timeout"]
    end = time.monotonic() + 2  # a process that was killed is there for a moment
    while alive(tmp_path) and time.monotonic() < end:
        time.sleep(0.01)
    assert alive(tmp_path) == []  # neither the late program nor the child it had started
    log = store.log(runs[1].key)
    folder = paths(store.root, runs[1].key)[2]
    assert "negative jacobian" in log and str(folder) in log
    assert (folder / "deck.txt").read_text() == "a = 1.5\nhow = exit\n"
    assert "negative jacobian" in runs[1].error and "\n" not in runs[1].error
    assert store.log(runs[0].key) == "" and not paths(store.root, runs[0].key)[2].exists()
    assert "trouble: hang" in (paths(store.root, runs[4].key)[2] / "stderr").read_text()
    assert "trouble: hang" in store.log(runs[4].key)


@pytest.mark.parametrize("executor", [0, 1])
def test_scratch_folders_are_kept_on_request(base, tmp_path, executor):
    store = RunStore(tmp_path / "runs")
    (run,) = evaluate(solver(base, keep=True), [{}], store, executor=executor)
    kept = store.root / ".work" / f"{run.key}.kept"
    assert (kept / "out.csv").exists() and (kept / "stdout").read_text() == "a is 1.5\n"
    evaluate(solver(base, keep=True), [{}, {"a": 2.0}], store, executor=executor)
    assert (kept / "out.csv").exists()  # the next campaign's tidying leaves it


def test_an_interrupted_program_is_ended(base, work):
    def interrupt():
        while not (work / "stderr").exists() or not (work / "stderr").stat().st_size:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    program = command(
        ["sh", "-c", "echo started >&2; exec sleep 1000", "@a@"], {"a": {"default": 1.0}}, OUTPUTS, base=base
    )
    with pytest.raises(KeyboardInterrupt):
        program.run({}, work)
    thread.join()
    assert alive(work) == []


def test_a_study_file_runs_a_program(base, capsys):
    study = """
tamis = 1
[model]
timeout = 30
[model.command]
run = ["./solver.py"]
templates = { "deck.in" = "deck.txt" }
inputs = { a = { default = 1.5 }, how = { default = "fine", choices = ["fine", "exit"] } }
outputs.t = { file = "out.csv", column = "time", unit = "s" }
outputs.F = { file = "out.csv", column = "force", unit = "N" }
[parameters]
a = { prior = "uniform", low = 1.0, high = 2.0 }
[[predict]]
name = "pull"
draws = 4
observe = [{ output = "F", how = "final" }]
"""
    (base / "study.toml").write_text(study)
    assert main(["check", str(base / "study.toml")]) == 0
    assert "one run takes" in capsys.readouterr().out
    (base / "study.toml").write_text(study.replace("a = { default", "b = { default"))
    assert main(["check", str(base / "study.toml")]) == 2
    message = 'model.command: deck.in, line 1: the mark @a@ names no input "a"'
    assert message in capsys.readouterr().err
