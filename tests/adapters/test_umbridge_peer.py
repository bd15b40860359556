"""Both sides against the protocol's own package, and its conformity rules against our server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis import Study
from tamis.adapters.http import http_model
from tamis.cli.main import main
from tamis.errors import SimulationError, StudyError
from tamis.runs.campaign import evaluate
from tamis.runs.store import RunStore
from tests.adapters.test_serve import Served, serving

umbridge = pytest.importorskip("umbridge", reason="the package umbridge is not installed")
requests = pytest.importorskip("requests", reason="the package requests is not installed")

THEIRS = """
import socket, sys
import umbridge

class Forward(umbridge.Model):
    def get_input_sizes(self, config):
        return [2, 1]
    def get_output_sizes(self, config):
        return [config.get("n", 3), 2]
    def supports_evaluate(self):
        return True
    def __call__(self, parameters, config):
        (a, b), (c,) = parameters
        if a < 0:
            raise ValueError("no such a")
        t = [float(i) for i in range(config.get("n", 3) + (a == 99.0))]
        return [t, [a * b, a / 3 + c]]

class Silent(umbridge.Model):
    def get_input_sizes(self, config):
        return [3]
    def get_output_sizes(self, config):
        return [1]

umbridge.serve_models([Forward("forward"), Silent("silent")], int(sys.argv[1]))
"""
INPUTS = {"a": {"default": 2.0}, "b": {"default": 3.0}, "c": {"default": 0.5}}
OUTPUTS = {"t": {"vector": 1}, "product": {"vector": 2, "item": 1}, "sum": {"vector": 2, "item": 2}}


@pytest.fixture(scope="module")
def ours() -> Iterator[Served]:
    with serving("plain.py:line", "wait=0", "-j", "1") as served:
        yield served


@pytest.fixture(scope="module")
def theirs() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", THEIRS, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, "their server does not start"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_their_client_evaluates_our_server(ours: Served) -> None:
    model = umbridge.HTTPModel(ours.url, "line")
    assert model.get_input_sizes() == [2] and model.get_output_sizes() == [3, 3]
    assert model.supports_evaluate() and not model.supports_gradient()
    assert not model.supports_apply_jacobian() and not model.supports_apply_hessian()
    assert model([[0.1, 3]]) == [[0.0, 1.0, 2.0], [0.0, 0.1, 0.2]]


def test_their_client_is_told_what_is_wrong(ours: Served) -> None:
    model = umbridge.HTTPModel(ours.url, "line")
    with pytest.raises(Exception, match="type InvalidInput: input vector: expected 2 numbers, found 1"):
        model([[0.1]])
    with pytest.raises(Exception, match='type InvalidInput: config: no input "wiat"; did you mean "wait"'):
        model([[0.1, 3]], {"wiat": 1.0})
    with pytest.raises(Exception, match="Supported models are: \\['line'\\]"):
        umbridge.HTTPModel(ours.url, "lines")


def test_our_client_evaluates_their_server_in_a_campaign(theirs: str, tmp_path: Path) -> None:
    model = http_model(
        theirs, "forward", version="1", inputs=INPUTS, outputs=OUTPUTS, config={"n": 4}, retries=0
    )
    points = [{"a": 1.0}, {"a": 0.1, "c": 7.0}, {"a": 99.0}, {"a": -1.0}]
    with RunStore(tmp_path / "runs") as store:
        runs = evaluate(model, points, store, executor=2)
        assert [run.status for run in runs] == ["done", "done", "failed", "crashed"]
        outputs = store.outputs(runs[1].key)
    assert outputs["t"].tolist() == [0.0, 1.0, 2.0, 3.0]
    # the same operations on the same doubles: equal to the last bit
    assert outputs["product"] == 0.1 * 3.0 and outputs["sum"] == 0.1 / 3 + 7.0
    assert "Output vector 0 has invalid length" in runs[2].error
    assert "500 Internal Server Error" in runs[3].error


def test_our_client_says_what_their_server_lacks(theirs: str, tmp_path: Path) -> None:
    def made(name: str, inputs: Any = INPUTS) -> Any:
        return http_model(theirs, name, version="1", inputs=inputs, outputs=OUTPUTS)

    with pytest.raises(StudyError, match='no model "forwad"; did you mean "forward"'):
        made("forwad").run({}, tmp_path)
    with pytest.raises(StudyError, match="offers no Evaluate"):
        made("silent").run({}, tmp_path)
    with pytest.raises(StudyError, match=r"takes 3 numbers, the table names 1 \(a\)"):
        made("forward", {"a": {"default": 1.0}}).run({}, tmp_path)


def test_our_client_and_our_server_tell_failures_from_crashes(tmp_path: Path) -> None:
    with serving("trouble.py:trouble", "-j", "1") as served:

        def made(how: str) -> Any:
            inputs, outputs = {"a": {"default": 1.0}}, {"z": {"vector": 1}}
            config = {"how": how}
            return http_model(
                served.url, "trouble", version="1", inputs=inputs, outputs=outputs, config=config, retries=0
            )

        model = made("fine")
        assert model.run({"a": 0.1}, tmp_path)["z"].tolist() == [0.1, 0.2]
        sizes = model._sizes
        for how, kind in (("physics", SimulationError), ("segfault", StudyError)):
            broken = made(how)
            vars(broken)["_sizes"] = sizes  # the sizes cannot be asked for where the model fails
            with pytest.raises(kind):
                broken.run({}, tmp_path)


def test_a_study_runs_over_http_as_it_does_at_home(tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / "ball")]) == 0
    study = tmp_path / "ball" / "study.toml"
    at_home = Study.load(study)
    with serving(str(tmp_path / "ball" / "model.py") + ":ball", "-j", "1") as served:
        table = f"""[model.http]
        url = "{served.url}"
        name = "ball"
        version = "1"
        inputs = {{ e = {{ default = 0.8 }}, drag = {{ default = 0.05 }}, h0 = {{ default = 1.0 }} }}
        outputs = {{ t = {{ vector = 1, unit = "s" }}, z = {{ vector = 2, unit = "m" }} }}
        """
        plain = re.sub(r"\[model\]\nsimulator = .*\n", "", study.read_text())
        study.write_text(f"{plain}\n{table}")
        over_http = Study.load(study)
        point = {"e": 0.7, "drag": 0.1, "h0": 1.5}
        here, there = (s.simulator.run(point, tmp_path) for s in (at_home, over_http))
    assert {name: array.tobytes() for name, array in here.items()} == {
        name: array.tobytes() for name, array in there.items()
    }


# --- the rules of the protocol's conformity suite, version 1.0


def post(url: str, **options: Any) -> tuple[int, Any]:
    with requests.post(url, timeout=30, **options) as response:
        return response.status_code, response.json()


def is_error(answer: Any, kind: str) -> bool:
    error = answer["error"]
    return set(answer) == {"error"} and set(error) == {"type", "message"} and error["type"] == kind


def test_conformity_of_info_and_sizes(ours: Served) -> None:
    with requests.get(f"{ours.url}/Info", timeout=30) as response:
        assert response.status_code == 200
        assert response.json() == {"protocolVersion": 1.0, "models": ["line"]}
    status, answer = post(f"{ours.url}/ModelInfo", json={"name": "line"})
    assert status == 200 and set(answer) == {"support"}  # no other key is allowed
    assert answer["support"] == {
        "Evaluate": True,
        "Gradient": False,
        "ApplyJacobian": False,
        "ApplyHessian": False,
    }
    for endpoint, key in (("InputSizes", "inputSizes"), ("OutputSizes", "outputSizes")):
        status, answer = post(f"{ours.url}/{endpoint}", json={"name": "line"})
        assert status == 200 and set(answer) == {key}
        assert answer[key] and all(type(size) is int for size in answer[key])


def test_conformity_of_evaluate(ours: Served) -> None:
    # without a content type, as the suite sends it
    body = {"input": [[3.0, 3.0]], "name": "line", "config": {}}
    status, answer = post(f"{ours.url}/Evaluate", data=json.dumps(body, indent=4))
    assert status == 200 and set(answer) == {"output"}
    sizes = post(f"{ours.url}/OutputSizes", json={"name": "line"})[1]["outputSizes"]
    assert [len(vector) for vector in answer["output"]] == sizes
    assert all(type(value) is float for vector in answer["output"] for value in vector)
    body["input"] = [[3.0, 3.0, 3.0]]
    status, answer = post(f"{ours.url}/Evaluate", data=json.dumps(body, indent=4))
    assert status == 400 and is_error(answer, "InvalidInput")


@pytest.mark.parametrize("endpoint", ["Evaluate", "ModelInfo", "InputSizes", "OutputSizes", "Gradient"])
def test_conformity_of_a_wrong_name(ours: Served, endpoint: str) -> None:
    status, answer = post(f"{ours.url}/{endpoint}", json={"name": "wrong_model_name"})
    assert status == 400 and is_error(answer, "ModelNotFound")


@pytest.mark.parametrize("endpoint", ["Gradient", "ApplyJacobian", "ApplyHessian"])
def test_conformity_of_what_is_not_supported(ours: Served, endpoint: str) -> None:
    status, answer = post(f"{ours.url}/{endpoint}", json={"name": "line"})
    assert status == 400 and is_error(answer, "UnsupportedFeature")
