"""Many clients at once in one event loop, over sockets of their own: they can leave at any moment.

seen = asyncio.run(crowd(gateway, [Visit(model="mock-n20-d0"), Visit(model="silent", leave_after_s=0.2)], at_once=50))
"""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.e2e.client import question
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

TIMEOUT_S = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One call."""

    model: str
    stream: bool = True
    #: When to hang up, counted from the send; None to stay to the end.
    leave_after_s: float | None = None
    #: Hang up with a TCP reset.
    resets: bool = False
    max_tokens: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the client of a `Visit` saw."""

    visit: Visit
    #: It hung up before the answer was over.
    has_left: bool
    #: Of the answer; 0 when there was none.
    status: int
    request_id: str
    body: bytes
    #: The answer's last byte came, and says that all of it did.
    ended_well: bool

    @property
    def error_type(self) -> str:
        """The error's type; empty for none."""
        start = self.body.rfind(b'{"type":"error"')
        return str(json.loads(self.body[start:].splitlines()[0])["error"]["type"]) if start >= 0 else ""


async def crowd(gateway: RunningGateway, visits: Iterable[Visit], *, at_once: int) -> list[Sight]:
    """Make the calls, so many at a time, and return what each client saw, in their order."""
    gate = asyncio.Semaphore(at_once)

    async def one(visit: Visit) -> Sight:
        async with gate:
            return await call(gateway, visit)

    return await asyncio.gather(*(one(visit) for visit in visits))


async def crowd_that_waits(
    gateway: RunningGateway, upstream: ScriptedUpstream, visits: Iterable[Visit], *, waiting: int
) -> list[Sight]:
    """Make the calls all at once; the upstream answers none of them until all but so many have been answered without it."""
    with upstream.standing_still():
        calls = [asyncio.create_task(call(gateway, visit)) for visit in visits]
        with suppress(TimeoutError):  # what came shows that too many were let through
            async with asyncio.timeout(TIMEOUT_S / 2):
                while len(pending := [one for one in calls if not one.done()]) > waiting:
                    await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    return await asyncio.gather(*calls)


async def call(gateway: RunningGateway, visit: Visit) -> Sight:
    """Make one call and read its answer to the end, or to where the client leaves."""
    url = urlsplit(gateway.base_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(_request(gateway, visit))
    answer = bytearray()
    has_left = False
    try:
        async with asyncio.timeout(TIMEOUT_S if visit.leave_after_s is None else visit.leave_after_s):
            while chunk := await reader.read(65536):
                answer += chunk
    except TimeoutError:
        assert visit.leave_after_s is not None, f"no end within {TIMEOUT_S} s: {visit}, {bytes(answer[-500:])!r}"
        has_left = True
    except ConnectionError:
        pass  # what came shows that it is no end
    if has_left and visit.resets:
        writer.transport.abort()
    else:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return _seen(visit, bytes(answer), has_left=has_left)


def _request(gateway: RunningGateway, visit: Visit) -> bytes:
    body = json.dumps(question(visit.model, stream=visit.stream, max_tokens=visit.max_tokens)).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n"
        f"x-api-key: {gateway.token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _seen(visit: Visit, answer: bytes, *, has_left: bool) -> Sight:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    status = int(lines[0].split(" ")[1]) if lines[0] else 0
    if "content-length" in headers:
        is_whole = status == 200 and len(body) == int(headers["content-length"])
    else:
        is_whole = b"event: message_stop" in body and body.endswith(b"0\r\n\r\n")
    return Sight(
        visit=visit,
        has_left=has_left,
        status=status,
        request_id=headers.get("request-id", ""),
        body=body,
        ended_well=is_whole,
    )
