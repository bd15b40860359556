"""A simulator offered over HTTP: the server side of the UM-Bridge protocol.

Any UM-Bridge client (Python, C++, R, Julia, MATLAB) can then run it: one input vector of numbers, one output vector an
output. Evaluations happen in worker processes, as those of a campaign do, so that a model that crashes or hangs costs
its own request and never the server. Nothing is stored.

A server answers strangers, so nothing in a request is trusted: not its length, its nesting, its types, its numbers or
its names. Files are never named by a client, only by whoever starts the server. Bound to the loopback address, the
server refuses other host names, and requests that a web page makes are refused everywhere: a browser must not become
the way in. A connection that does not finish its request in time is closed.

The protocol's own test-suite forbids additional keys in ``ModelInfo``, so names and units of ports are sent only to
who asks for them, with ``"tamis": true`` in the request.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.adapters.http import CRASHED, PROTOCOL
from tamis.errors import SimulationError, StudyError, nearest
from tamis.runs.keys import with_defaults
from tamis.runs.pool import Workers
from tamis.runs.store import Run, paths, read_arrays
from tamis.runs.worker import Job
from tamis.simulation import Port, Simulator
from tamis.types import Inputs, Outputs, Value

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MOST_BYTES = 1 << 20  # of a request
_BODY_SECONDS = 20.0  # for a request's body to arrive
_IDLE_SECONDS = 10.0  # a connection may spend this long, at most twice, without a complete request head
_CONNECTIONS = 512
_TYPES = ("", "application/json", "text/plain")  # none and plain text: what older clients send
_UNSUPPORTED = ("Gradient", "ApplyJacobian", "ApplyHessian")


class Refused(Exception):
    """A request answered with an error of the protocol."""

    def __init__(self, kind: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class Offer:
    """What is served: a simulator, the inputs that make up the vector, values of the others."""

    simulator: Simulator
    name: str
    vector: tuple[str, ...]
    fixed: Inputs

    def inputs(self, config: Mapping[str, Any], numbers: Sequence[float] | None = None) -> dict[str, Value]:
        """Return complete inputs, by default those of the start; `StudyError` says what is wrong with a request."""
        given = dict(self.fixed)
        for name, value in config.items():
            port = self.simulator.inputs.get(name)
            if port is None:
                raise StudyError(
                    f'config: no input "{_short(name)}"{nearest(name[:99], self.simulator.inputs)}'
                )
            if name in self.vector:
                raise StudyError(
                    f'config: "{name}" is number {self.vector.index(name) + 1} of the input vector'
                )
            if port.kind == "file":
                raise StudyError(
                    f'config: "{name}" is a file, which only the server\'s command line may name'
                )
            given[name] = value if isinstance(value, str) else _number(f"config: {name}", value)
        if numbers is not None:
            given.update(zip(self.vector, numbers, strict=True))
        return with_defaults(self.simulator, given)


def offer(simulator: Simulator, fixed: Inputs, vector: Sequence[str] | None = None) -> Offer:
    """Choose the inputs of the vector: those named, or all numbers that are not fixed, in the simulator's order.

    A named input may have a value among ``fixed`` too, which is then its default.
    """
    ports = simulator.inputs
    if vector is None:
        vector = [name for name, port in ports.items() if port.kind == "number" and name not in fixed]
    for name in vector:
        if name not in ports:
            raise StudyError(f'simulator {simulator.name} has no input "{name}"{nearest(name, ports)}')
        if ports[name].kind != "number":
            raise StudyError(f'input "{name}" is a {ports[name].kind}; the vector holds numbers only')
    if not vector or len(set(vector)) != len(vector):
        raise StudyError(f"the input vector needs one number or more, each once; found {', '.join(vector)}")
    full = with_defaults(simulator, fixed)  # also says which input has no default
    files = {name for name, port in ports.items() if port.kind == "file"}
    known = {
        name: os.path.abspath(str(full[name])) if name in files and full[name] else full[name]
        for name in {*fixed, *files}
    }
    return Offer(simulator, simulator.name.rpartition(":")[2], tuple(vector), known)


class Crew:
    """Worker processes, each lent to one evaluation at a time, each with a folder that its next answer overwrites."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._closed = False
        self._folder = tempfile.TemporaryDirectory(prefix="tamis-serve-", ignore_cleanup_errors=True)
        self._all = [(Workers(1), Path(self._folder.name) / str(number)) for number in range(count)]
        self._free: SimpleQueue[tuple[Workers, Path]] = SimpleQueue()
        for member in self._all:
            self._free.put(member)

    def evaluate(self, simulator: Simulator, inputs: Inputs, timeout: float | None) -> Outputs:
        """Run one point in a worker; `SimulationError` if the physics fails, `ChildProcessError` if the run breaks."""
        workers, folder = member = self._free.get()
        try:
            if self._closed:
                raise ChildProcessError("the server is ending")
            record = Run("request", simulator.name, simulator.version, inputs, "done", 0.0)
            job = Job(simulator.address, folder, record, inputs, pack=True)
            ((run, left),) = workers.perform([job], timeout)
            own, _, work = paths(folder, run.key)
            if run.status == "done":
                shutil.rmtree(work, ignore_errors=True)
                return read_arrays(left.content or own, list(simulator.outputs))
            shutil.rmtree(folder, ignore_errors=True)
            raise (SimulationError if run.status == "failed" else ChildProcessError)(run.error)
        finally:
            self._free.put(member)

    def close(self) -> None:
        """End the worker processes and with them what they are doing."""
        self._closed = True
        deadline = time.monotonic() + 5.0
        while True:
            for workers, _ in self._all:
                workers.close()
            if self._free.qsize() == self.count or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._folder.cleanup()


def application(
    offered: Offer, crew: Crew, timeout: float | None, hosts: Sequence[str] | None, at_start: Sequence[int]
) -> Starlette:
    """Return the server as an ASGI application.

    ``hosts`` are the names it answers to, None for any; ``at_start`` the sizes of the outputs at the defaults.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    threads = ThreadPoolExecutor(crew.count, thread_name_prefix="evaluation")
    turn = asyncio.Semaphore(crew.count)
    lengths = {json.dumps(offered.inputs({})): list(at_start)}

    async def evaluated(request: Request, inputs: Inputs, made: Callable[[Outputs], Any]) -> Any:
        async with turn:
            if await request.is_disconnected():  # it waited for its turn, and nobody waits for the answer
                raise Refused("InvalidInput", "the client is gone")
            work = partial(_evaluated, crew, offered.simulator, inputs, timeout, made)
            return await asyncio.get_running_loop().run_in_executor(threads, work)

    async def sizes(request: Request, config: Mapping[str, Any]) -> list[int]:
        inputs = offered.inputs(config)
        key = json.dumps(inputs)
        if key not in lengths:
            found = await evaluated(
                request, inputs, lambda outputs: [array.size for array in outputs.values()]
            )
            if len(lengths) > 256:
                lengths.clear()
            lengths[key] = found
        return lengths[key]

    async def info(request: Request) -> Response:
        return _answer({"protocolVersion": PROTOCOL, "models": [offered.name]})

    async def model_info(request: Request) -> Response:
        body = await _body(request, offered)
        support = {"Evaluate": True} | dict.fromkeys(_UNSUPPORTED, False)
        about = {"tamis": _about(offered)} if body.get("tamis") is True else {}
        return _answer({"support": support, **about})

    async def input_sizes(request: Request) -> Response:
        offered.inputs(_config(await _body(request, offered)))
        return _answer({"inputSizes": [len(offered.vector)]})

    async def output_sizes(request: Request) -> Response:
        config = _config(await _body(request, offered))
        return _answer({"outputSizes": await sizes(request, config)})

    async def evaluate(request: Request) -> Response:
        body = await _body(request, offered)
        inputs = offered.inputs(_config(body), _vector(body.get("input"), len(offered.vector)))
        return _response(200, await evaluated(request, inputs, _spelled))

    async def unsupported(request: Request) -> Response:
        await _body(request, offered)
        raise Refused("UnsupportedFeature", f"{request.url.path[1:]} is not supported; Evaluate is")

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return _error(error.kind, str(error), error.status)

    async def misdirected(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = f"{_short(request.method)} {_short(request.url.path)}: {error.detail}"
        return _error("UnsupportedFeature", what, error.status_code)

    async def broken(request: Request, error: Exception) -> Response:
        return _error(CRASHED, "the server failed on this request; its terminal says why", 500)

    endpoints: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "ModelInfo": model_info,
        "InputSizes": input_sizes,
        "OutputSizes": output_sizes,
        "Evaluate": evaluate,
        **dict.fromkeys(_UNSUPPORTED, unsupported),
    }

    def guarded(
        endpoint: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def behind(request: Request) -> Response:
            _check_origin(request, hosts)
            try:
                return await endpoint(request)
            except StudyError as error:
                raise Refused("InvalidInput", str(error)) from error

        return behind

    return Starlette(
        routes=[
            Route("/Info", guarded(info), methods=["GET"]),
            *(Route(f"/{name}", guarded(endpoint), methods=["POST"]) for name, endpoint in endpoints.items()),
        ],
        exception_handlers={Refused: refuse, HTTPException: misdirected, Exception: broken},
    )


def _evaluated(
    crew: Crew, simulator: Simulator, inputs: Inputs, timeout: float | None, made: Callable[[Outputs], Any]
) -> Any:
    try:
        outputs = crew.evaluate(simulator, inputs, timeout)
    except SimulationError as error:
        raise Refused("InvalidOutput", str(error), 500) from error
    except BaseException as error:  # in a thread of our own: also an interrupt that the model raised
        raise Refused(CRASHED, str(error) or type(error).__name__, 500) from error
    return made(outputs)


def _spelled(outputs: Outputs) -> bytes:
    output = [np.asarray(array, dtype=np.float64).ravel().tolist() for array in outputs.values()]
    try:
        return json.dumps({"output": output}, allow_nan=False).encode()
    except ValueError:
        raise Refused("InvalidOutput", "the model's answer has numbers that are not finite", 500) from None


def _check_origin(request: Request, hosts: Sequence[str] | None) -> None:
    if "origin" in request.headers:
        raise Refused("InvalidInput", "requests of web pages are refused", 403)
    name = request.headers.get("host", "").strip()
    name = name.rpartition(":")[0] if not name.endswith("]") and ":" in name else name
    if hosts is not None and name.strip("[]").lower() not in hosts:
        raise Refused("InvalidInput", f'this server is not "{_short(name)}"; it answers as {hosts[0]}', 403)


async def _body(request: Request, offered: Offer) -> dict[str, Any]:
    """Read a request as an object that names the model served."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TYPES:
        how = "write curl -H 'Content-Type: application/json'"
        raise Refused("InvalidInput", f'expected application/json, found "{_short(kind)}"; {how}', 415)
    content = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > _MOST_BYTES:
                    raise Refused("InvalidInput", f"a request may have {_MOST_BYTES} bytes, not more", 413)
    except TimeoutError:
        raise Refused("InvalidInput", f"the request did not arrive in {_BODY_SECONDS:g} s", 408) from None
    try:
        body = json.loads(bytes(content), parse_constant=_no_constant)
    except RecursionError:
        raise Refused("InvalidInput", "the request is nested too deeply") from None
    except ValueError as error:
        raise Refused("InvalidInput", f"the request is not JSON: {_short(str(error))}") from None
    if not isinstance(body, dict):
        raise Refused("InvalidInput", "expected a JSON object")
    name = body.get("name")
    if name != offered.name:
        found = (
            f'no model "{_short(name)}"'
            if isinstance(name, str)
            else 'expected the model\'s name under "name"'
        )
        raise Refused("ModelNotFound", f'{found}; the model here is "{offered.name}"')
    return body


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def _config(body: Mapping[str, Any]) -> Mapping[str, Any]:
    config = body.get("config")
    if config is not None and not isinstance(config, dict):
        raise StudyError('expected an object of inputs by name under "config"')
    return config or {}


def _vector(given: Any, size: int) -> list[float]:
    if not isinstance(given, list) or len(given) != 1 or not isinstance(given[0], list):
        raise StudyError('expected a list of one vector under "input"')
    if len(given[0]) != size:
        what = "number" if size == 1 else "numbers"
        raise StudyError(f"input vector: expected {size} {what}, found {len(given[0])}")
    return [_number(f"input vector, number {i}", value) for i, value in enumerate(given[0], 1)]


def _number(where: str, value: Any) -> float:
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise StudyError(f"{where}: expected a finite number")


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."


def _about(offered: Offer) -> dict[str, Any]:
    def port(name: str) -> dict[str, Any]:
        port: Port = offered.simulator.inputs[name]
        default = offered.fixed.get(name, port.default)
        return {"name": name, "unit": port.unit, "default": default, "bounds": port.bounds}

    outputs = [{"name": p.name, "unit": p.unit} for p in offered.simulator.outputs.values()]
    return {
        "version": offered.simulator.version,
        "inputs": [port(name) for name in offered.vector],
        "outputs": outputs,
    }


def _answer(content: Mapping[str, Any], status: int = 200) -> Response:
    return _response(
        status, json.dumps(content).encode()
    )  # in ASCII: a client's half of a character breaks nothing


def _response(status: int, content: bytes) -> Response:
    from starlette.responses import Response

    return Response(content, status, media_type="application/json")


def _error(kind: str, message: str, status: int) -> Response:
    return _answer({"error": {"type": kind, "message": message}}, status)


def serve(offered: Offer, *, host: str, port: int, jobs: int, timeout: float | None) -> None:
    """Serve until interrupted; says where once the model has answered at its defaults."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise StudyError(
            f"serving needs {error.name}, which is not installed: pip install tamis[serve]"
        ) from None
    local = host in LOOPBACK
    crew = Crew(jobs)
    try:
        with _listening(host, port) as listener:
            sizes = _first(crew, offered, timeout)
            config = uvicorn.Config(
                application(offered, crew, timeout, LOOPBACK if local else None, sizes),
                http=_patient(),
                ws="none",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
            shown = f"[{host}]" if ":" in host else host
            print(f"{offered.name} at http://{shown}:{listener.getsockname()[1]}")
            print(f"input: {', '.join(offered.vector)}")
            print(f"outputs: {', '.join(offered.simulator.outputs)}; Ctrl-C ends it", flush=True)
            if not local:
                print(
                    "warning: whoever reaches this address may run the model; there is no password",
                    flush=True,
                )
            with suppress(KeyboardInterrupt):
                _server(config, crew).run(sockets=[listener])
    finally:
        crew.close()


def _first(crew: Crew, offered: Offer, timeout: float | None) -> list[int]:
    try:
        outputs = crew.evaluate(offered.simulator, offered.inputs({}), timeout)
    except (SimulationError, ChildProcessError) as error:
        raise StudyError(
            f"{offered.name} fails at its defaults: {error}; give values that work, key=value"
        ) from error
    return [array.size for array in outputs.values()]


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise StudyError(f"--port {port}: expected 0 to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: 40 ms less an answer
        return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StudyError(f"port {port} is in use; choose another with --port") from error
        raise StudyError(
            f"cannot listen at {host}, port {port}: {error}; choose another --port or --host"
        ) from error


def _server(config: uvicorn.Config, crew: Crew) -> uvicorn.Server:
    """Return a server that ends its evaluations first when it is told to end, so that each is answered."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await asyncio.get_running_loop().run_in_executor(None, crew.close)
            await super().shutdown(sockets)

    return Server(config)


def _patient() -> Any:
    """Return uvicorn's HTTP protocol, made to close connections that twice in a row are seen without a request."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        idle = False
        next_look: asyncio.TimerHandle

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.next_look = self.loop.call_later(_IDLE_SECONDS, self.look)

        def connection_lost(self, exc: Exception | None) -> None:
            self.next_look.cancel()
            super().connection_lost(exc)

        def look(self) -> None:
            waiting = self.cycle is None or self.cycle.response_complete
            if waiting and self.idle:
                self.transport.close()
                return
            self.idle = waiting
            self.next_look = self.loop.call_later(_IDLE_SECONDS, self.look)

    return Patient
