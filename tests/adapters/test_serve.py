"""The server: what it offers, what it refuses, and that nothing a stranger sends ends it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tamis.adapters import serve as server
from tamis.cli.main import main
from tamis.errors import StudyError
from tamis.simulation import Port, find, simulator

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

MODELS = Path(__file__).parents[1] / "models"
LINE = find("plain.py:line", MODELS)
TROUBLE = find("trouble.py:trouble", MODELS)


class Served:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self.process = process
        self.said = said
        self.url = said.split()[2]
        self.port = int(self.url.rpartition(":")[2])

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        method: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        kind = {"Content-Type": "application/json"} if content is not None else {}
        try:
            connection.request(
                method or ("POST" if content is not None else "GET"),
                path,
                content,
                {**kind, **(headers or {})},
            )
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def evaluate(self, name: str, numbers: list[Any], **config: Any) -> tuple[int, Any]:
        return self.ask("/Evaluate", {"name": name, "input": [numbers], "config": config})


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tamis", "serve", *arguments, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=MODELS,
    )
    assert process.stdout and process.stderr
    try:
        said = process.stdout.readline() + process.stdout.readline() + process.stdout.readline()
        assert " at http://" in said, said + process.stderr.read()
        yield Served(process, said)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()


@pytest.fixture(scope="module")
def line() -> Iterator[Served]:
    with serving("plain.py:line", "wait=0", "-j", "2") as served:
        yield served


@pytest.fixture(scope="module")
def trouble() -> Iterator[Served]:
    with serving("trouble.py:trouble", "-j", "2", "--timeout", "1") as served:
        yield served


# --- what is offered


def test_it_says_where_it_is_and_what_it_offers(line: Served) -> None:
    assert line.said.startswith("line at http://127.0.0.1:")
    assert "input: a, n\n" in line.said and "outputs: t, z;" in line.said


def test_the_vector_is_all_numbers_that_are_not_fixed_or_those_named() -> None:
    assert server.offer(LINE, {}).vector == ("a", "n", "wait")
    assert server.offer(LINE, {"n": 4}).vector == ("a", "wait")
    assert server.offer(TROUBLE, {}).vector == ("a",)
    chosen = server.offer(LINE, {"n": 4, "a": 7.0}, ["wait", "n"])
    assert chosen.vector == ("wait", "n")
    assert chosen.inputs({}) == {"a": 7.0, "n": 4, "wait": 0.0}
    assert chosen.inputs({"a": 2}, [0.5, 6.0]) == {"a": 2.0, "n": 6, "wait": 0.5}


@simulator(outputs={"y": ""}, version="1", inputs={"table": Port("table", kind="file")})
def needs(*, x, table=str(MODELS / "plain.py")):
    return {"y": x}


@pytest.mark.parametrize(
    ("model", "fixed", "vector", "message"),
    [
        (LINE, {}, ["b"], 'no input "b"'),
        (LINE, {"nn": 3}, None, 'no input "nn"; did you mean "n"'),
        (LINE, {}, ["a", "a"], "each once"),
        (LINE, {"a": 1.0, "n": 1, "wait": 0.0}, None, "one number or more"),
        (LINE, {"n": 1.5}, None, "whole number"),
        (TROUBLE, {}, ["how"], '"how" is a choice'),
        (TROUBLE, {"how": "fin"}, None, 'cannot be "fin"; did you mean "fine"'),
        (needs, {}, None, '"x" has no default'),
        (needs, {"x": 1.0}, ["table"], '"table" is a file'),
    ],
)
def test_what_cannot_be_offered_is_said(model: Any, fixed: Any, vector: Any, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        server.offer(model, fixed, vector)


def test_a_client_names_no_files() -> None:
    offered = server.offer(needs, {"x": 1.0}, ["x"])
    with pytest.raises(StudyError, match="only the server's command line"):
        offered.inputs({"table": "/etc/passwd"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dem.impct"], 'did you mean "tamis:dem.impact"'),
        ([f"{MODELS}/plain.py:line", "-j", "0"], "-j 1 or more"),
        ([f"{MODELS}/plain.py:line", "--timeout", "0"], "positive --timeout"),
        ([f"{MODELS}/plain.py:line", "n"], "expected key=value"),
        ([f"{MODELS}/plain.py:line", "--port", "99999"], "expected 0 to 65535"),
        ([f"{MODELS}/plain.py:line", "--host", "no.such.host.invalid"], "choose another --port or --host"),
        (
            [f"{MODELS}/trouble.py:trouble", "how=physics", "--port", "0"],
            "fails at its defaults: diverged at t",
        ),
        ([f"{MODELS}/trouble.py:trouble", "how=abort", "--port", "0"], "fails at its defaults: .*SIGABRT"),
    ],
)
def test_a_wrong_command_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["serve", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", f"{MODELS}/plain.py:line", "--port", port]) == 2
    assert capsys.readouterr().err == f"error: port {port} is in use; choose another with --port\n"


def test_a_study_file_is_served_with_its_fixed_inputs(tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / "ball")]) == 0
    with serving(str(tmp_path / "ball" / "study.toml")) as served:
        name = served.said.split()[0]
        status, about = served.ask("/ModelInfo", {"name": name, "tamis": True})
        assert status == 200
        ports = about["tamis"]["inputs"]
        assert served.evaluate(name, [port["default"] for port in ports])[0] == 200


# --- good requests


def test_sizes_answers_and_names_agree(line: Served) -> None:
    assert line.ask("/Info") == (200, {"protocolVersion": 1.0, "models": ["line"]})
    assert line.ask("/InputSizes", {"name": "line"}) == (200, {"inputSizes": [2]})
    assert line.ask("/OutputSizes", {"name": "line", "config": {}}) == (200, {"outputSizes": [3, 3]})
    assert line.evaluate("line", [0.1, 3]) == (200, {"output": [[0.0, 1.0, 2.0], [0.0, 0.1, 0.2]]})
    about = line.ask("/ModelInfo", {"name": "line", "tamis": True})[1]["tamis"]
    assert about["inputs"][0] == {"name": "a", "unit": "m", "default": 1.0, "bounds": None}
    assert about["outputs"] == [{"name": "t", "unit": "s"}, {"name": "z", "unit": "m"}]


def test_config_gives_inputs_by_name(trouble: Served) -> None:
    assert trouble.evaluate("trouble", [3.0], how="garbage") == (200, {"output": [[3.0, 6.0]]})


def test_sizes_follow_config() -> None:
    with serving("plain.py:line", "--inputs", "a", "-j", "1") as served:
        assert served.ask("/OutputSizes", {"name": "line", "config": {"n": 5}}) == (
            200,
            {"outputSizes": [5, 5]},
        )
        assert served.evaluate("line", [1.0], n=5)[1]["output"][0] == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert served.ask("/OutputSizes", {"name": "line"}) == (200, {"outputSizes": [3, 3]})


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "text/plain", ""])
def test_content_types_of_known_clients_are_taken(line: Served, kind: str) -> None:
    assert line.ask("/InputSizes", {"name": "line"}, headers={"Content-Type": kind})[0] == 200


# --- a model that misbehaves costs its own request

FATES = {
    "physics": ("InvalidOutput", "diverged at t = 3 s"),
    "nan": ("InvalidOutput", "output z: 1 of 2 values are not finite"),
    "raises": ("ModelCrashed", "ZeroDivisionError: no way to divide"),
    "segfault": ("ModelCrashed", "SIGSEGV"),
    "exit0": ("ModelCrashed", "exit code 0"),
    "interrupt": ("ModelCrashed", "KeyboardInterrupt"),
    "hang": ("ModelCrashed", "no answer after 1 s"),
}


@pytest.mark.parametrize("how", FATES)
def test_a_model_that_misbehaves_costs_its_own_request(trouble: Served, how: str) -> None:
    status, answer = trouble.evaluate("trouble", [1.0], how=how)
    kind, message = FATES[how]
    assert status == 500
    assert answer["error"]["type"] == kind and message in answer["error"]["message"]
    assert trouble.evaluate("trouble", [1.0]) == (200, {"output": [[1.0, 2.0]]})


def test_an_input_outside_its_bounds_is_an_answer_about_the_physics() -> None:
    with serving("dem.impact", "--inputs", "speed,mu", "-j", "1") as served:
        assert served.ask("/Info")[1]["models"] == ["dem.impact"]
        status, answer = served.evaluate("dem.impact", [2.0, 5.0])
        assert (status, answer["error"]["type"]) == (500, "InvalidOutput")
        assert '"mu" = 5 is outside [0.0, 2.0]' in answer["error"]["message"]
        status, answer = served.evaluate("dem.impact", [2.0])
        assert status == 400 and "expected 2 numbers, found 1" in answer["error"]["message"]


def test_evaluations_run_side_by_side() -> None:
    with serving("plain.py:line", "-j", "2") as served:
        found: list[int] = []

        def work() -> None:
            found.append(served.evaluate("line", [1.0, 3, 0.5])[0])

        def timed(count: int) -> float:
            threads = [threading.Thread(target=work) for _ in range(count)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return time.perf_counter() - start

        timed(2)  # the second worker process starts
        assert timed(2) < 0.95  # two sleeps of 0.5 s one after the other take 1 s
        assert found == [200] * 4


# --- bad requests

GOOD = {"name": "line", "input": [[1.0, 3]], "config": {}}
BAD: dict[str, tuple[Any, int, str]] = {
    "empty": (b"", 400, "InvalidInput"),
    "not JSON": (b"{'name': 1}", 400, "InvalidInput"),
    "not text": (b"\xff\xfe\xfa", 400, "InvalidInput"),
    "deep": (b'{"name": ' + b"[" * 100_000, 400, "InvalidInput"),
    "deep but closed": (b'{"name": "line", "input": ' + b"[" * 400 + b"]" * 400 + b"}", 400, "InvalidInput"),
    "a list": (b"[]", 400, "InvalidInput"),
    "a word": (b'"line"', 400, "InvalidInput"),
    "NaN": (b'{"name": "line", "input": [[NaN, 3]]}', 400, "InvalidInput"),
    "Infinity": (b'{"name": "line", "input": [[-Infinity, 3]]}', 400, "InvalidInput"),
    "overflow": (b'{"name": "line", "input": [[1e999, 3]]}', 400, "InvalidInput"),
    "huge whole number": (b'{"name": "line", "input": [[1' + b"0" * 400 + b", 3]]}", 400, "InvalidInput"),
    "endless digits": (b'{"name": "line", "input": [[1' + b"0" * 9000 + b", 3]]}", 400, "InvalidInput"),
    "half a character": (b'{"name": "\\ud800"}', 400, "ModelNotFound"),
    "half a name": (b'{"name": "line", "input": [[1, 3]], "config": {"\\udfff": 1}}', 400, "InvalidInput"),
    "too large": (b'{"name": "line", "pad": "' + b"x" * (1 << 20) + b'"}', 413, "InvalidInput"),
    "no name": ({"input": [[1.0, 3]]}, 400, "ModelNotFound"),
    "name is a list": ({**GOOD, "name": ["line"]}, 400, "ModelNotFound"),
    "another model": ({**GOOD, "name": "lines"}, 400, "ModelNotFound"),
    "no input": ({"name": "line"}, 400, "InvalidInput"),
    "flat input": ({**GOOD, "input": [1.0, 3]}, 400, "InvalidInput"),
    "two vectors": ({**GOOD, "input": [[1.0], [3]]}, 400, "InvalidInput"),
    "too short": ({**GOOD, "input": [[1.0]]}, 400, "InvalidInput"),
    "too long": ({**GOOD, "input": [[1.0, 3, 4]]}, 400, "InvalidInput"),
    "words": ({**GOOD, "input": [["1.0", 3]]}, 400, "InvalidInput"),
    "null": ({**GOOD, "input": [[None, 3]]}, 400, "InvalidInput"),
    "true": ({**GOOD, "input": [[True, 3]]}, 400, "InvalidInput"),
    "not whole": ({**GOOD, "input": [[1.0, 3.5]]}, 400, "InvalidInput"),
    "config is a list": ({**GOOD, "config": [1]}, 400, "InvalidInput"),
    "unknown config": ({**GOOD, "config": {"wiat": 1.0}}, 400, "InvalidInput"),
    "config of the vector": ({**GOOD, "config": {"a": 1.0}}, 400, "InvalidInput"),
    "config is a word": ({**GOOD, "config": {"wait": "long"}}, 400, "InvalidInput"),
    "config is an object": ({**GOOD, "config": {"wait": {}}}, 400, "InvalidInput"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_request_is_answered_with_an_error_of_the_protocol(line: Served, how: str) -> None:
    body, status, kind = BAD[how]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found, answer = line.ask("/Evaluate", raw=raw)
    assert (found, answer["error"]["type"]) == (status, kind)
    assert set(answer) == {"error"} and set(answer["error"]) == {"type", "message"}
    assert "Traceback" not in answer["error"]["message"] and len(answer["error"]["message"]) < 500


def test_an_unknown_name_comes_with_the_nearest(line: Served) -> None:
    answer = line.ask("/Evaluate", {**GOOD, "config": {"wiat": 1.0}})[1]
    assert 'did you mean "wait"' in answer["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/Evaluate", {}, 405),
        ("POST", "/Info", {}, 405),
        ("DELETE", "/Evaluate", {}, 405),
        ("POST", "/evaluate", {}, 404),
        ("GET", "/../../etc/passwd", {}, 404),
        ("POST", "/Evaluate", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", "/Evaluate", {"Host": "evil.example"}, 403),
        ("POST", "/Evaluate", {"Host": "127.0.0.1.evil.example:4242"}, 403),
        ("POST", "/Evaluate", {"Host": ""}, 403),
        ("GET", "/Info", {"Host": "evil.example:4242"}, 403),
        ("POST", "/Evaluate", {"Origin": "http://evil.example"}, 403),
        ("POST", "/Evaluate", {"Origin": "null"}, 403),
    ],
)
def test_wrong_doors_are_closed(
    line: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    found, answer = line.ask(path, GOOD if method == "POST" else None, method=method, headers=headers)
    assert found == status and answer["error"]["message"]


def test_what_curl_sends_by_itself_is_refused_with_the_words_that_help(line: Served) -> None:
    answer = line.ask("/Evaluate", GOOD, headers={"Content-Type": "application/x-www-form-urlencoded"})[1]
    assert "curl -H 'Content-Type: application/json'" in answer["error"]["message"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]", "[::1]:4242"])
def test_its_own_names_are_answered(line: Served, host: str) -> None:
    assert line.ask("/Info", headers={"Host": host})[0] == 200


def test_a_server_for_all_warns_and_answers_to_any_name() -> None:
    with serving("plain.py:line", "--host", "0.0.0.0", "-j", "1") as served:
        assert served.process.stdout
        assert "there is no password" in served.process.stdout.readline()
        assert served.ask("/Info", headers={"Host": "machine.example"})[0] == 200


# --- idle and slow clients, endings


def test_slow_clients_block_nobody_and_are_shown_the_door() -> None:
    code = (
        "import sys, tamis.adapters.serve as s; s._IDLE_SECONDS = 0.3; s._BODY_SECONDS = 0.5;"
        "from tamis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "plain.py:line", "--port", "0", "-j", "1"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=MODELS,
    )
    assert process.stdout
    try:
        served = Served(process, process.stdout.readline())
        beginnings = [b"", b"POST /Evaluate HT", b"GET /Info HTTP/1.1\r\nHost: localhost\r\nX: "]
        body = b"POST /Evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        for i, client in enumerate(clients):
            client.settimeout(10)
            client.sendall([*beginnings, body][i % 4])
        assert served.ask("/Info")[0] == 200
        answers = [client.recv(1000) for client in clients]
        assert all(answer == b"" or b" 408 " in answer for answer in answers)
        assert sum(b" 408 " in answer for answer in answers) == 25
        for client in clients:
            client.close()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0
        process.stdout.close()


def below(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")  # a process is the child of a thread
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [process for child in children for process in (child, *below(child))]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_all_it_started_even_in_the_midst_of_a_run(how: signal.Signals) -> None:
    with serving("trouble.py:trouble", "-j", "2") as served:
        body = json.dumps({"name": "trouble", "input": [[1.0]], "config": {"how": "late_child"}}).encode()
        client = socket.create_connection(("127.0.0.1", served.port))
        head = f"POST /Evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        deadline = time.monotonic() + 10
        while len(found := below(served.process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)  # a worker, the program it runs, the process that clears up
        assert len(found) >= 3
        served.process.send_signal(how)
        assert served.process.wait(10) in (0, -how)
        deadline = time.monotonic() + 5
        while any(map(_alive, found)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(_alive, found))
        client.close()
        assert served.process.stderr and "Traceback" not in served.process.stderr.read()


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
