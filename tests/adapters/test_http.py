"""The client: what a server may answer, and what becomes of the run."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.adapters import http as client
from tamis.adapters.http import from_table, http_model
from tamis.errors import SimulationError, StudyError, Unavailable
from tamis.runs.campaign import evaluate
from tamis.runs.keys import run_key
from tamis.runs.store import RunStore
from tamis.simulation import find

INPUTS = {"a": {"default": 2.0, "unit": "m"}, "b": {"default": 3.0}, "c": {"default": 4.0, "bounds": [0, 10]}}
OUTPUTS = {"t": {"vector": 1, "unit": "s"}, "peak": {"vector": 2, "item": 2, "unit": "N"}}

Answer = tuple[int, dict[str, str], bytes] | dict[str, Any]


class Fake:
    """A server whose answers a test may replace, one after another; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, int]] = []  # path, body, port of the client
        self.instead: dict[str, list[Answer | None]] = {}  # None: hang up
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.answer(None)

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body: Any) -> None:
                fake.asked.append((self.path, body, self.client_address[1]))
                queue = fake.instead.get(self.path, [])
                answer = queue.pop(0) if queue else fake.usual(self.path, body)
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, headers, content = (
                    (200, {}, json.dumps(answer).encode()) if isinstance(answer, dict) else answer
                )
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
                if "Content-Length" in headers:  # a lie: the rest never comes
                    self.close_connection = True

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def usual(self, path: str, body: Any) -> dict[str, Any]:
        """Answer like a model of vectors of 2 and 1 numbers: t = (a, b, c), F = (a + b, a * b * c)."""
        match path:
            case "/Info":
                return {"protocolVersion": 1.0, "models": ["forward", "other"]}
            case "/ModelInfo":
                return {"support": {"Evaluate": True, "Gradient": False}}
            case "/InputSizes":
                return {"inputSizes": [2, 1]}
            case "/OutputSizes":
                return {"outputSizes": [3, 2]}
        (a, b), (c,) = body["input"]
        return {"output": [[a, b, c], [a + b, a * b * c]]}

    def times(self, path: str) -> int:
        return sum(asked[0] == path for asked in self.asked)


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    yield made
    made.server.shutdown()
    made.server.server_close()
    for connection in client._mine.__dict__.pop("kept", {}).values():
        connection.close()


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def model(fake: Fake | str, **changes: Any) -> client.HttpModel:
    url = fake if isinstance(fake, str) else fake.url
    given: dict[str, Any] = {"version": "1.0", "inputs": INPUTS, "outputs": OUTPUTS, **changes}
    return http_model(url, given.pop("name", "forward"), **given)


def test_a_run_is_one_exchange_over_a_kept_connection(fake: Fake, tmp_path: Path) -> None:
    served = model(fake, config={"level": 2})
    first = served.run({"b": 5.0}, tmp_path)
    assert first["t"].tolist() == [2.0, 5.0, 4.0]
    assert first["peak"].shape == () and first["peak"] == 40.0
    assert fake.asked[-1][1] == {"name": "forward", "input": [[2.0, 5.0], [4.0]], "config": {"level": 2}}
    before = len(fake.asked)
    served.run({"b": 6.0}, tmp_path)
    assert len(fake.asked) == before + 1
    assert len({port for _, _, port in fake.asked}) == 1


def test_numbers_travel_exactly(fake: Fake, tmp_path: Path) -> None:
    numbers = {"a": 0.1 + 0.2, "b": 5e-324, "c": np.nextafter(10.0, 0.0)}
    assert model(fake).run(numbers, tmp_path)["t"].tolist() == list(numbers.values())


def test_it_passes_the_battery_of_simulators(fake: Fake) -> None:
    tamis.check_simulator(model(fake))


def test_it_is_made_without_a_server_and_pickles_as_its_address(tmp_path: Path) -> None:
    served = model("http://127.0.0.1:9")
    copy = pickle.loads(pickle.dumps(served))
    assert (copy.name, copy.version, copy.url) == (served.name, served.version, served.url)
    assert find(served.address).address == served.address
    assert served.doc and served.inputs["a"].unit == "m" and served.outputs["peak"].unit == "N"


def test_runs_outlive_a_move_of_the_server_but_not_a_change_of_what_is_asked() -> None:
    here = model("http://here:1")
    assert run_key(model("https://there:2/path", retries=0), {}) == run_key(here, {})
    turned = dict(reversed(INPUTS.items()))
    others = [
        model("http://here:1", version="1.1"),
        model("http://here:1", name="other"),
        model("http://here:1", config={"level": 3}),
        model("http://here:1", inputs=turned),
        model("http://here:1", outputs={**OUTPUTS, "t": {"vector": 2}}),
    ]
    assert len({run_key(other, {}) for other in (here, *others)}) == 6


def test_a_campaign_runs_it_in_workers_and_keeps_failures(fake: Fake, tmp_path: Path) -> None:
    points = [{"a": float(a)} for a in range(4)] + [{"c": 11.0}]
    with RunStore(tmp_path / "runs") as store:
        runs = evaluate(model(fake), points, store, executor=2)
        assert [run.status for run in runs] == ["done"] * 4 + ["failed"]
        assert [float(store.outputs(run.key)["peak"]) for run in runs[:4]] == [0.0, 12.0, 24.0, 36.0]
    assert 1 <= fake.times("/Info") <= 2  # once a process


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        ("/Info", {"protocolVersion": 0.9, "models": ["forward"]}, "speaks version 0.9 of UM-Bridge"),
        ("/Info", {"protocolVersion": 1.0, "models": ["foward"]}, 'did you mean "foward"'),
        ("/Info", {"protocolVersion": 1.0, "models": None}, "none is defined"),
        ("/ModelInfo", {"support": {"Evaluate": False}}, "cannot be evaluated"),
        ("/InputSizes", {"inputSizes": [3, 1]}, r"takes 4 numbers, the table names 3 \(a, b, c\)"),
        ("/InputSizes", {"inputSizes": [1.5, 1.5]}, "list of whole numbers"),
        ("/InputSizes", {"inputSizes": [-1, 4]}, "list of whole numbers"),
        ("/InputSizes", {}, "list of whole numbers"),
        ("/OutputSizes", {"outputSizes": [3]}, "output peak: there is no vector 2; .* answers with 1"),
        ("/OutputSizes", {"outputSizes": [3, 1]}, "output peak: there is no item 2; vector 2 has 1 numbers"),
        ("/Evaluate", {"out": []}, "expected a list of vectors"),
        ("/Evaluate", {"output": [[1.0]]}, "output peak: vector 2 of an answer with 1"),
        ("/Evaluate", {"output": [[1.0], [1.0]]}, "output peak: item 2 of a vector of 1"),
        ("/Evaluate", {"error": {"type": "InvalidInput", "message": "too long"}}, "InvalidInput: too long"),
        ("/Evaluate", {"error": {"type": "ModelCrashed", "message": "SIGSEGV"}}, "SIGSEGV"),
        ("/Evaluate", (404, {}, b"no such page"), "404 Not Found; is it a UM-Bridge server"),
        ("/Evaluate", (307, {"Location": "http://evil.example/Evaluate"}, b""), "sends elsewhere"),
    ],
)
def test_a_request_that_cannot_be_right_is_not_repeated(
    fake: Fake, tmp_path: Path, path: str, answer: Answer, message: str
) -> None:
    fake.instead[path] = [answer]
    with pytest.raises(StudyError, match=message):
        model(fake).run({}, tmp_path)
    assert fake.times(path) == 1


def test_names_that_a_tamis_server_gives_are_shown(fake: Fake, tmp_path: Path) -> None:
    names = [{"name": name} for name in ("E", "nu", "rho", "h")]
    fake.instead["/ModelInfo"] = [{"support": {"Evaluate": True}, "tamis": {"inputs": names}}]
    fake.instead["/InputSizes"] = [{"inputSizes": [4]}]
    with pytest.raises(StudyError, match=r"takes 4 numbers \(E, nu, rho, h\)"):
        model(fake).run({}, tmp_path)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"error": {"type": "InvalidOutput", "message": "did not converge"}}, "^did not converge$"),
        ((500, {}, b'{"error": {"type": "Diverged", "message": "at t = 3"}}'), "^at t = 3$"),
        ({"error": {}}, "no reason given"),
        ((200, {}, b'{"output": [[1, NaN], [0, 1]]}'), "output t: 1 of 2 values are not finite"),
        ((200, {}, b'{"output": [[1, 1e999], [0, 1]]}'), "output t: 1 of 2 values are not finite"),
        ((200, {}, b'{"output": [[1' + b"0" * 400 + b"], [0, 1]]}"), "output t: a number is too large"),
        ({"output": [["1"], [0, 1]]}, "output t: vector 1 of the answer is not a list of numbers"),
        ({"output": [[None], [0, 1]]}, "output t: .* not a list of numbers"),
        ({"output": [[True], [0, 1]]}, "output t: .* not a list of numbers"),
        ({"output": [[[1.0]], [0, 1]]}, "output t: .* not a list of numbers"),
        ({"output": [1.0, [0, 1]]}, "output t: .* not a list of numbers"),
    ],
)
def test_what_the_model_says_is_a_failure_and_not_repeated(
    fake: Fake, tmp_path: Path, answer: Answer, message: str
) -> None:
    fake.instead["/Evaluate"] = [answer]
    with pytest.raises(SimulationError, match=message):
        model(fake).run({}, tmp_path)
    assert fake.times("/Evaluate") == 1


LOST: dict[str, Answer | None] = {
    "hangs up": None,
    "server error": (500, {}, b"500 Internal Server Error"),
    "gateway": (502, {}, b"<html>bad gateway</html>"),
    "truncated": (200, {"Content-Length": "1000"}, b'{"output": [[1'),
    "not JSON": (200, {}, b"<html>welcome</html>"),
    "deep": (200, {}, b"[" * 200_000),
    "not an object": (200, {}, b"[1, 2]"),
}


@pytest.mark.parametrize("how", LOST)
def test_what_is_lost_on_the_way_is_asked_for_again(
    fake: Fake, tmp_path: Path, hurry: list[float], how: str
) -> None:
    served = model(fake, retries=3)
    served.run({}, tmp_path)
    fake.instead["/Evaluate"] = [LOST[how]] * 2
    assert served.run({}, tmp_path)["peak"] == 24.0
    # the first loss over a kept connection is a connection grown stale: asked again at once
    assert hurry in ([0.2], [0.2, 0.4])


def test_it_gives_up_after_as_many_retries_as_it_was_told(
    fake: Fake, tmp_path: Path, hurry: list[float]
) -> None:
    fake.instead["/Info"] = [(503, {}, b"")] * 9
    with pytest.raises(StudyError, match=f"no answer from {fake.url}: the server answers 503 .*4 attempts"):
        model(fake, retries=3).run({}, tmp_path)
    assert fake.times("/Info") == 4
    assert hurry == [0.2, 0.4, 0.8]


def test_a_server_that_is_down_is_said_and_one_that_comes_back_is_used(fake: Fake, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with RunStore(tmp_path / "runs") as store:
        with pytest.raises(Unavailable, match=f"no answer from http://127.0.0.1:{port}: Connection refused"):
            evaluate(model(f"http://127.0.0.1:{port}", retries=1), [{}, {"a": 2.0}], store, executor=1)
        assert len(store) == 0  # no point would have fared better
        (again,) = evaluate(model(fake), [{}], store, executor=1)
        assert again.status == "done"


def test_an_answer_too_large_is_refused_while_it_is_read(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LARGEST", 3 * client._MEGABYTE)
    fake.instead["/Evaluate"] = [(200, {}, b" " * (4 * client._MEGABYTE))]
    with pytest.raises(StudyError, match="larger than 3 MB"):
        model(fake).run({}, tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:4242",
        "ftp://host/x",
        "file:///etc/passwd",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://me:secret@host",
        "http://host/?a=b",
        "http://host/#x",
        "http://ho st",
        "http://host/\r\nX-Evil: 1",
    ],
)
def test_only_plain_addresses_of_servers_are_taken(url: str) -> None:
    with pytest.raises(StudyError, match='expected "http://host:port"'):
        model(url)


@pytest.mark.parametrize("port", [{"choices": ["a"]}, {"kind": "file"}, {"default": "word"}])
def test_words_are_no_inputs_of_a_server(port: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="input w: a server takes numbers only"):
        model("http://host:1", inputs={"w": port})


@pytest.mark.parametrize("place", [{"vector": 0}, {"vector": 1, "item": 0}])
def test_vectors_are_counted_from_one(place: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="counted from 1"):
        model("http://host:1", outputs={"t": place})


def test_a_table_may_leave_out_what_has_a_default(fake: Fake, tmp_path: Path) -> None:
    table = {"url": fake.url + "/", "name": "forward", "version": "1", "inputs": INPUTS, "outputs": {"t": {}}}
    assert from_table(str(tmp_path), table).run({}, tmp_path)["t"].tolist() == [2.0, 3.0, 4.0]


def test_a_connection_that_the_server_closed_meanwhile_costs_no_retry(fake: Fake, tmp_path: Path) -> None:
    served = model(fake, retries=0)
    served.run({}, tmp_path)
    for connection in client._mine.kept.values():
        connection.sock.shutdown(socket.SHUT_RDWR)
    assert served.run({}, tmp_path)["peak"] == 24.0


def test_a_thread_has_a_connection_of_its_own(fake: Fake, tmp_path: Path) -> None:
    served = model(fake)
    served.run({}, tmp_path)
    found: list[float] = []

    def work(task: Callable[[], Any]) -> None:
        found.append(float(task()))
        for connection in client._mine.__dict__.pop("kept").values():
            connection.close()

    threads = [
        threading.Thread(target=work, args=(lambda a=a: served.run({"a": a}, tmp_path)["peak"],))
        for a in (1.0, 2.0, 3.0)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [12.0, 24.0, 36.0]
    assert len({port for path, _, port in fake.asked if path == "/Evaluate"}) == 4
