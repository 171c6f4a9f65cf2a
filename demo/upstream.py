"""An upstream without a model: `python -m demo.upstream --port 9900`.

It answers plain calls pleasantly, for `manage.py up --demo`, and breaks in any way a script asks for, for tests.
See `demo/README.md`. It trusts whoever reaches it: keep it on loopback.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from demo import chat, messages, responses
from demo.answer import decide, with_input
from demo.ask import Ask
from demo.capped import capped
from demo.frames import Dialect, Failure
from demo.http1 import MAX_HEAD, BadRequest, ClientGone, Request, Wire
from demo.lacking import lacking
from demo.memory import Prefixes, Requests, Scripts, Setting
from demo.play import JSON_HEADERS, Scene, play
from demo.raw import replay
from demo.script import Script, ScriptError
from demo.truth import Attempt, Truth

MODELS = ["demo", "demo-small", "mock-n50-d0", "mock-n50-d20"]
DIALECTS = {
    "/chat/completions": chat.DIALECT,
    "/messages": messages.DIALECT,
    "/responses": responses.DIALECT,
}
CONTROLS = {"/script", "/reset"}


class Upstream:
    """The state of one process, and what each of its endpoints does."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.scripts = Scripts()
        self.prefixes = Prefixes()
        self.requests = Requests()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        wire = Wire(reader, writer)
        try:
            while not wire.is_gone() and (request := await wire.read_request()) is not None:
                await self.answer(wire, request)
        except BadRequest:
            with contextlib.suppress(ClientGone):
                await wire.send_whole(400, b"", [])
        except ClientGone:
            pass  # the attempt says so
        finally:
            wire.close()

    async def answer(self, wire: Wire, request: Request) -> None:
        path = request.path.removeprefix("/v1")
        if request.method == "POST" and path not in CONTROLS:
            self.requests.keep(request)
        endpoints: dict[tuple[str, str], Callable[[Wire, Request], Awaitable[None]]] = {
            ("GET", "/models"): self._models,
            ("GET", "/truth"): self._truth,
            ("GET", "/requests"): self._requests,
            ("POST", "/script"): self._script,
            ("POST", "/reset"): self._reset,
        }
        if request.method == "POST" and path in DIALECTS:
            await self._call(wire, request, DIALECTS[path])
        elif endpoint := endpoints.get((request.method, path)):
            await endpoint(wire, request)
        else:
            await _send_json(wire, 404, {"error": {"message": f"no such endpoint: {request.method} {request.path}"}})

    async def _call(self, wire: Wire, request: Request, dialect: Dialect) -> None:
        try:
            body = orjson.loads(request.body)
            ask = dialect.read(body)
        except (ValueError, AttributeError, TypeError) as exc:
            failure = Failure(status=400, message=f"not a request: {exc}", type="invalid_request_error")
            await _send_json(wire, 400, dialect.error(failure))
            return
        setting = self.scripts.find(key=request.key(), model=ask.model)
        attempt = self._begin(request, ask, dialect, setting)
        reason = "client_gone"
        try:
            reason = await self._perform(wire, request, dialect, ask, setting, attempt)
        finally:
            self.truth.end(attempt, reason)

    async def _perform(
        self, wire: Wire, request: Request, dialect: Dialect, ask: Ask, setting: Setting | None, attempt: Attempt
    ) -> str:
        if setting is not None and setting.raw is not None:
            return await replay(wire, setting.raw)
        try:
            script = self.scripts.settle(setting.script) if setting is not None else None
        except ScriptError as exc:
            await _send_json(wire, 400, dialect.error(Failure(status=400, message=str(exc), type="script_error")))
            return "refused"
        if script is not None:
            ask, script = lacking(ask, script)
        input_tokens, cached = self.prefixes.count(ask.parts, owner=f"{request.key()} {ask.model}")
        if script is not None and script.cached is not None:
            cached = script.cached
        answer = decide(ask, script)
        if script is not None:
            answer, script = capped(answer, ask, script)
        answer = with_input(answer, input_tokens=input_tokens, cached_tokens=cached)
        scene = Scene(wire=wire, dialect=dialect, ask=ask, answer=answer, script=script or Script(), attempt=attempt)
        return await play(scene)

    def _begin(self, request: Request, ask: Ask, dialect: Dialect, setting: Setting | None) -> Attempt:
        return self.truth.begin(
            request_id=request.header("x-request-id"),
            key_sha256=hashlib.sha256(request.key().encode()).hexdigest(),
            dialect=dialect.name,
            model=ask.model,
            stream=ask.stream,
            script="raw" if setting is not None and setting.raw is not None else setting.script if setting else "",
            started_at=time.time(),
        )

    async def _models(self, wire: Wire, request: Request) -> None:
        models = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "demo"} for name in MODELS]
        await _send_json(wire, 200, {"object": "list", "data": models})

    async def _truth(self, wire: Wire, request: Request) -> None:
        await _send_json(wire, 200, self.truth.report())

    async def _requests(self, wire: Wire, request: Request) -> None:
        await _send_json(wire, 200, self.requests.report())

    async def _script(self, wire: Wire, request: Request) -> None:
        try:
            self.scripts.set(orjson.loads(request.body))
        except (ValueError, AttributeError) as exc:
            await _send_json(wire, 400, {"error": {"message": str(exc)}})
            return
        await _send_json(wire, 200, {"ok": True})

    async def _reset(self, wire: Wire, request: Request) -> None:
        self.scripts.reset()
        self.prefixes.reset()
        self.requests.reset()
        self.truth.reset()
        await _send_json(wire, 200, {"ok": True})


async def _send_json(wire: Wire, status: int, body: Any) -> None:
    await wire.send_whole(status, orjson.dumps(body), JSON_HEADERS)


async def run(port: int, truth: Truth, *, until_stdin_closes: bool) -> None:
    """Listen on loopback until SIGTERM, SIGINT, or the end of the standard input if that is asked for."""
    upstream = Upstream(truth)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if until_stdin_closes:
        threading.Thread(target=_wait_for_stdin, args=(asyncio.get_running_loop(), stop), daemon=True).start()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", port, limit=MAX_HEAD, backlog=1024)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    truth.end_all("stopped")


def _wait_for_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Whoever started us holds the other end, and it closes with them, however they ended."""
    while os.read(sys.stdin.fileno(), 4096):  # not `sys.stdin.read`, whose lock would outlive the interpreter
        pass
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
        loop.call_soon_threadsafe(stop.set)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.upstream", description=__doc__)
    parser.add_argument("--port", type=int, default=9900, help="0 picks a free one")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="append a JSON line for each attempt that ended")
    parser.add_argument("--fsync", action="store_true", help="flush each of those lines to the disk")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with whoever holds our input")
    options = parser.parse_args()
    truth = Truth(path=options.truth, fsync=options.fsync)
    asyncio.run(run(options.port, truth, until_stdin_closes=options.until_stdin_closes))


if __name__ == "__main__":
    main()
