"""The server under thousands of requests made by chance: none ends it, and it answers a good one afterwards."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.test_serve import GOOD, Served, serving


@pytest.fixture(scope="module")
def line() -> Iterator[Served]:
    with serving("plain.py:line", "wait=0", "-j", "2") as served:
        yield served


def mutated(rng: random.Random) -> bytes:
    """Return a request's body: JSON with parts replaced, doubled or cut, or bytes by chance."""
    odd = [
        None,
        True,
        -1,
        1e308,
        10**30,
        "",
        "line",
        "\ud800",
        [],
        {},
        [[]],
        [[1.0, 3]],
        {"a": 1},
        [[[1]]],
        "x" * 500,
    ]
    body: dict[str, Any] = json.loads(json.dumps(GOOD))
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(4):
            case 0:
                body[rng.choice(["name", "input", "config", "tamis", "extra"])] = rng.choice(odd)
            case 1:
                body.pop(rng.choice(list(body)), None)
                body["name"] = rng.choice(["line", "line", rng.choice(odd)])
            case 2:
                body["input"] = [
                    [rng.choice(odd) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(3))
                ]
            case 3:
                body["config"] = {
                    rng.choice(["a", "n", "wait", "b", "\x00"]): rng.choice([*odd[:3], "x", [], {}])
                }
    raw = bytearray(json.dumps(body).encode())
    if rng.random() < 0.4:
        for _ in range(rng.randint(1, 5)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    if rng.random() < 0.2:
        raw = raw[: rng.randrange(len(raw))]
    if rng.random() < 0.02:
        raw = bytearray(rng.choice(b'[{"') for _ in range(1)) * rng.randrange(1, 50_000)
    return bytes(raw)


def as_request(rng: random.Random, body: bytes) -> bytes:
    path = rng.choice(
        ["Evaluate", "Evaluate", "InputSizes", "OutputSizes", "ModelInfo", "Gradient", "Info", "x%00"]
    )
    method = rng.choice(["POST", "POST", "POST", "GET", "PUT"])
    kind = rng.choice(["application/json", "application/json", "text/plain", "text/html"])
    head = f"{method} /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def raw_noise(rng: random.Random, request: bytes) -> bytes:
    noise = bytearray(request)
    for _ in range(rng.randint(1, 20)):
        where = rng.randrange(len(noise))
        if rng.random() < 0.5:
            noise[where] = rng.randrange(256)
        else:
            noise[where:where] = rng.randbytes(rng.randrange(8))
    return bytes(noise) if rng.random() < 0.8 else rng.randbytes(rng.randrange(1, 2000))


def exchanged(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while part := client.recv(65536):
                answer += part
        except ConnectionError:  # refused before it was read to its end
            return b""
    return answer


def fuzzed(served: Served, count: int, seed: int) -> dict[int, int]:
    rng = random.Random(seed)
    seen: dict[int, int] = {}
    for _ in range(count):
        request = as_request(rng, mutated(rng))
        noisy = rng.random() < 0.4
        answer = exchanged(served.port, raw_noise(rng, request) if noisy else request)
        head, _, content = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head else 0
        seen[status] = seen.get(status, 0) + 1
        assert status < 500 or b"ModelCrashed" in content or b"InvalidOutput" in content, request[:300]
        if not noisy and status >= 400:
            assert set(json.loads(content)["error"]) == {"type", "message"}, request[:300]
        assert b"Traceback" not in content
    return seen


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_fuzz(served: Served, count: int, seed: int) -> None:
    fuzzed(served, 50, seed + 1)
    before = resident(served.process.pid)
    seen = fuzzed(served, count, seed)
    assert {200, 400, 404, 405, 415} <= set(seen)
    # allocators wander by 2 MB; the state of a connection kept for each of 10 000 would be 60 MB
    assert resident(served.process.pid) - before < 15e6
    assert served.process.poll() is None
    assert served.evaluate("line", [0.1, 3]) == (200, {"output": [[0.0, 1.0, 2.0], [0.0, 0.1, 0.2]]})


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_chance_does_not_end_it(line: Served) -> None:
    check_fuzz(line, 3_000, seed=2)
