"""A model behind an HTTP server as a simulator: the client side of the UM-Bridge protocol.

UM-Bridge knows vectors, not names: a request is a list of vectors of numbers, an answer another. The study's table
gives the numbers their names, in the order of the server's vectors laid end to end.

Making the simulator needs no network, so a study loads where the server is down. The first run asks the server what
it offers and holds it against the table; after that a run is one exchange over a connection that is kept. An
evaluation has no effect but its answer, so whatever is lost on the way is asked for again. A failure that the server
reports is never asked for again: it is the answer.

The server does not say when its results change, so the user states a version. What the table says of order, places
and settings changes results too, and is added to it; the address of the server is not, since runs stay valid when it
moves.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import numpy as np

from tamis.adapters.ports import port_of
from tamis.errors import SimulationError, StudyError, Unavailable, nearest
from tamis.simulation import Port, complete, described, find
from tamis.types import Array, Inputs, Outputs

PROTOCOL = 1.0
CRASHED = "ModelCrashed"  # our server's word for a run that broke, where "InvalidOutput" is one that failed
_NOT_PHYSICS = ("InvalidInput", "ModelNotFound", "UnsupportedFeature", CRASHED)
_CONNECT_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_MEGABYTE = 1 << 20
_LARGEST = 256 * _MEGABYTE
_mine = threading.local()  # connections that wait for the next request of this thread


class _NoAnswer(Exception):
    """Nothing usable came back; worth asking again."""


class _NoConnection(_NoAnswer):
    """Nobody listens there."""


@dataclass(frozen=True, eq=False)
class HttpModel:
    """A served model seen as a simulator; made by `http_model` or by ``[model.http]`` of a study."""

    name: str
    version: str
    address: str
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    url: str
    config: Mapping[str, Any]
    retries: int
    places: Mapping[str, tuple[int, int | None]]  # of each output: vector and item, counted from 1
    references: tuple[str, ...] = field(default=())

    @property
    def doc(self) -> str:
        """Say where the model is."""
        return f'Model "{self.name}" served at {self.url}.'

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the address alone."""
        return find, (self.address,)

    def run(self, inputs: Inputs, workdir: Path) -> Outputs:
        """Ask for one evaluation."""
        numbers = [float(value) for value in complete(self, inputs).values()]
        vectors, start = [], 0
        for size in self._sizes:
            vectors.append(numbers[start : start + size])
            start += size
        answer = self._ask("Evaluate", {"name": self.name, "input": vectors, "config": self.config})
        output = answer.get("output")
        if not isinstance(output, list):
            raise StudyError(f'{self.url}: expected a list of vectors under "output", found none')
        return {name: self._taken(name, output) for name in self.outputs}

    def _taken(self, name: str, output: list[Any]) -> Array:
        vector, item = self.places[name]
        if vector > len(output):
            raise StudyError(f"output {name}: vector {vector} of an answer with {len(output)} vectors")
        values = output[vector - 1]
        if not isinstance(values, list) or not set(map(type, values)) <= {int, float}:
            raise SimulationError(f"output {name}: vector {vector} of the answer is not a list of numbers")
        if item is not None and item > len(values):
            raise StudyError(f"output {name}: item {item} of a vector of {len(values)} numbers")
        try:
            array = np.array(values if item is None else values[item - 1], dtype=np.float64)
        except OverflowError:
            raise SimulationError(f"output {name}: a number is too large") from None
        bad = int(np.count_nonzero(~np.isfinite(array)))
        if bad:
            raise SimulationError(f"output {name}: {bad} of {array.size} values are not finite")
        return array

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """Ask once what the server offers, hold it against the table, return the sizes of the input vectors."""
        offered = self._ask("Info", None)
        if offered.get("protocolVersion") != PROTOCOL:
            spoken = offered.get("protocolVersion")
            raise Unavailable(f"{self.url} speaks version {spoken} of UM-Bridge; expected {PROTOCOL}")
        models = [str(model) for model in offered.get("models") or ()]
        if self.name not in models:
            raise Unavailable(f'{self.url} has no model "{self.name}"{nearest(self.name, models)}')
        what = {"name": self.name, "config": self.config}
        about = self._ask("ModelInfo", {"name": self.name, "tamis": True})
        if not about.get("support", {}).get("Evaluate"):
            raise Unavailable(
                f'model "{self.name}" at {self.url} cannot be evaluated (it offers no Evaluate)'
            )
        sizes = self._numbers("inputSizes", self._ask("InputSizes", what))
        if sum(sizes) != len(self.inputs):
            names = [str(port.get("name")) for port in about.get("tamis", {}).get("inputs", ())]
            there = f" ({', '.join(names)})" if names else ""
            raise Unavailable(
                f'model "{self.name}" at {self.url} takes {sum(sizes)} numbers{there}, the table names '
                f"{len(self.inputs)} ({', '.join(self.inputs)}); name all, in the server's order"
            )
        lengths = self._numbers("outputSizes", self._ask("OutputSizes", what))
        for name, (vector, item) in self.places.items():
            if vector > len(lengths):
                raise Unavailable(
                    f'output {name}: there is no vector {vector}; model "{self.name}" at {self.url} answers with '
                    f"{len(lengths)}, counted from 1"
                )
            if item is not None and item > lengths[vector - 1]:
                raise Unavailable(
                    f"output {name}: there is no item {item}; vector {vector} has {lengths[vector - 1]} numbers, "
                    "counted from 1"
                )
        return sizes

    def _numbers(self, key: str, answer: Mapping[str, Any]) -> tuple[int, ...]:
        sizes = answer.get(key)
        if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
            raise Unavailable(f'{self.url}: expected a list of whole numbers under "{key}"')
        return tuple(sizes)

    def _ask(self, what: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        server = urlsplit(self.url)
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self.retries + 1):
            try:
                return _understood(self.url, *_exchanged(server, what, content))
            except _NoAnswer as error:
                reason, down = str(error), isinstance(error, _NoConnection)
            if attempt < self.retries:
                time.sleep(_PAUSE_SECONDS * 2**attempt)
        tries = f" ({self.retries + 1} attempts)" if self.retries else ""
        text = f"no answer from {self.url}: {reason}{tries}"
        if down:
            raise Unavailable(f"{text}; start the server, the same command goes on")
        raise StudyError(text)


def http_model(
    url: str,
    name: str,
    *,
    version: str,
    inputs: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, Mapping[str, Any]],
    config: Mapping[str, Any] | None = None,
    retries: int = 3,
) -> HttpModel:
    """Return a simulator that asks a UM-Bridge server.

    Parameters
    ----------
    url
        ``http://host:port`` of the server.
    name
        The model's name there.
    version
        Part of the run key: change it when the server's results change.
    inputs
        ``{"E": {"default": 2.1e11, "unit": "Pa"}}``: all numbers, in the order of the server's vectors end to end.
    outputs
        ``{"peak": {"vector": 3, "item": 1, "unit": "N"}}``: a vector of the answer, or one item of it, from 1.
    config
        Sent with every request.
    retries
        How often to ask again when no answer comes.
    """
    table = {
        "url": url,
        "name": name,
        "version": version,
        "inputs": {key: dict(port) for key, port in inputs.items()},
        "outputs": {key: dict(place) for key, place in outputs.items()},
        "config": dict(config or {}),
        "retries": retries,
    }
    return from_table(str(Path.cwd()), table)


def from_table(base: str, table: Mapping[str, Any]) -> HttpModel:
    """Make the simulator that a study's ``[model.http]`` describes; asks nothing of the server."""
    url = str(table["url"]).rstrip("/")
    _check_url(url)
    inputs = {name: _number(name, port) for name, port in table["inputs"].items()}
    places = {name: (place.get("vector", 1), place.get("item")) for name, place in table["outputs"].items()}
    for name, (vector, item) in places.items():
        if vector < 1 or (item is not None and item < 1):
            raise StudyError(f"output {name}: vectors and items are counted from 1")
    config = table.get("config", {})
    meaning = json.dumps([list(inputs), sorted(places.items()), config], sort_keys=True)
    return HttpModel(
        name=table["name"],
        version=f"{table['version']}+{hashlib.sha256(meaning.encode()).hexdigest()[:8]}",
        address=described("http", dict(table), Path(base)),
        inputs=inputs,
        outputs={
            name: Port(name, unit=place.get("unit", ""), doc=place.get("doc", ""))
            for name, place in table["outputs"].items()
        },
        url=url,
        config=config,
        retries=table.get("retries", 3),
        places=places,
    )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or parts.username or not url.isprintable() or " " in url:
        raise StudyError(
            f'url: expected "http://host:port" or "https://host:port" and no more, found "{url}"'
        )


def _number(name: str, table: Mapping[str, Any]) -> Port:
    if (
        table.get("choices")
        or table.get("kind", "number") != "number"
        or isinstance(table.get("default"), str)
    ):
        raise StudyError(f"input {name}: a server takes numbers only; words belong in `config`")
    return port_of(name, table, Path())


def _understood(url: str, status: int, reason: str, content: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        _refused(url, answer["error"])
    if 300 <= status < 400:
        raise StudyError(f"{url} sends elsewhere ({status} {reason}); give the address of the server itself")
    if 400 <= status < 500:
        raise StudyError(f"{url} answers {status} {reason}; is it a UM-Bridge server?")
    if status != http.client.OK:
        raise _NoAnswer(f"the server answers {status} {reason}")
    if not isinstance(answer, dict):
        raise _NoAnswer("the answer is not JSON, or was cut short")
    return answer


def _refused(url: str, error: Mapping[str, Any]) -> NoReturn:
    kind, message = str(error.get("type", "")), str(error.get("message", "no reason given"))
    if kind in _NOT_PHYSICS:
        raise StudyError(f"{url} refuses: {kind}: {message}")
    raise SimulationError(message)


def _exchanged(server: SplitResult, what: str, content: bytes | None) -> tuple[int, str, bytes]:
    """Send one request; return status, reason and content of the answer."""
    kept: dict[tuple[str, str], http.client.HTTPConnection] = _mine.__dict__.setdefault("kept", {})
    where = server.scheme, server.netloc
    old = kept.pop(where, None)
    try:
        if old is not None:
            try:
                return _over(old, kept, server, what, content)
            except ConnectionError:  # the server closed it meanwhile
                old.close()
        try:
            new = _connected(server)
        except OSError as error:
            raise _NoConnection(f"{error.strerror or error}") from error
        return _over(new, kept, server, what, content)
    except (OSError, http.client.HTTPException) as error:
        raise _NoAnswer(" ".join(f"{type(error).__name__}: {error}".split())) from error


def _connected(server: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if server.scheme == "https" else http.client.HTTPConnection
    assert server.hostname
    connection = kind(server.hostname, server.port, timeout=_CONNECT_SECONDS)
    connection.connect()
    # an evaluation may take hours; a machine that is gone is noticed by the system's probes
    connection.sock.settimeout(None)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 8)):
        if hasattr(socket, option):
            connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection


def _over(
    connection: http.client.HTTPConnection,
    kept: dict[tuple[str, str], http.client.HTTPConnection],
    server: SplitResult,
    what: str,
    content: bytes | None,
) -> tuple[int, str, bytes]:
    done = False
    try:
        method = "GET" if content is None else "POST"
        headers = {} if content is None else {"Content-Type": "application/json"}
        connection.request(method, f"{server.path}/{what}", content, headers)
        response = connection.getresponse()
        parts, size = [], 0
        while part := response.read(_MEGABYTE):
            parts.append(part)
            size += len(part)
            if size > _LARGEST:
                raise StudyError(
                    f"the answer of {server.geturl()} is larger than {_LARGEST // _MEGABYTE} MB; "
                    "let the server answer with less"
                )
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        done = connection.sock is not None
        return response.status, response.reason, b"".join(parts)
    finally:
        if done:
            kept[server.scheme, server.netloc] = connection
        else:
            connection.close()
