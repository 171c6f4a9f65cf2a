"""Upstreams are asked not to compress; one that does is understood where that is safe, and refused clearly where not."""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway
from tests.translator.core.upstreams import chunk, finish, usage
from tests.upstream import ScriptedUpstream

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
}
FRAMES = [chunk(content="Hello"), finish(), usage(20, 5)]
STREAM = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in FRAMES) + b"data: [DONE]\n\n"
UNDONE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "GZip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes,
}  # fmt: skip
#: Others, and what doesn't hold what it says.
REFUSED = ["br", "zstd", "compress", "gzip, gzip", "aws-chunked", "gzip"]
MEGABYTE = 2**20
GROWTH_MAX = 16 * MEGABYTE


@pytest.fixture(scope="module")
def patient(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process)


def raw(encoding: str, pieces: list[bytes], *, stream: bool) -> dict[str, Any]:
    """Have the upstream send these bytes."""
    kind = "text/event-stream" if stream else "application/json"
    return {
        "headers": {"content-encoding": encoding, "content-type": kind},
        "sse": [piece.decode("latin-1") for piece in pieces],
        "sse_encoding": "latin-1",
        "delays_ms": {str(number): 5 for number in range(len(pieces))},
    }


def bombs() -> dict[str, tuple[str, list[bytes]]]:
    """Give what grows to 100 MB: at once, and piece by piece."""
    zeros = b"0" * MEGABYTE
    at_once, bit_by_bit = zlib.compressobj(9), zlib.compressobj(9, wbits=31)
    pieces = [bit_by_bit.compress(zeros) + bit_by_bit.flush(zlib.Z_SYNC_FLUSH) for _ in range(100)]
    whole = at_once.compress(zeros * 100) + at_once.flush()
    return {"at once": ("deflate", [whole]), "bit by bit": ("gzip", pieces)}


BOMBS = bombs()


def memory(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("encoding", UNDONE)
def test_what_zlib_knows_is_undone(
    patient: RunningGateway, upstream: ScriptedUpstream, encoding: str, stream: bool
) -> None:
    body = STREAM if stream else json.dumps(ANSWER).encode()
    upstream.script(raw=raw(encoding, [UNDONE[encoding](body)], stream=stream), model="m")

    seen = ask(patient, "m", stream=stream)

    assert seen.ended_well, seen
    assert (seen.text if stream else seen.body["content"][0]["text"]) == "Hello"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("encoding", REFUSED)
def test_anything_else_is_the_upstreams_error(
    patient: RunningGateway, upstream: ScriptedUpstream, encoding: str, stream: bool
) -> None:
    model = f"refused-{encoding}-{stream}"
    upstream.script(raw=raw(encoding, [b"\x8b\x01no-such-thing" * 9], stream=stream), model=model)

    seen = ask(patient, model, stream=stream)

    assert_unreadable(patient, upstream, seen)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_stopped_before_it_has_grown(
    patient: RunningGateway, upstream: ScriptedUpstream, bomb: str, stream: bool
) -> None:
    model, (encoding, pieces) = f"bomb-{bomb}-{stream}", BOMBS[bomb]
    upstream.script(raw=raw(encoding, pieces, stream=stream), model=model)
    [pid] = patient.worker_pids()
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = memory(pid, "VmRSS")

    seen = ask(patient, model, stream=stream)

    assert seen.status in (500, 502), seen
    assert memory(pid, "VmHWM") - before < GROWTH_MAX
    if bomb == "at once" or not stream:  # the other one is stopped as a frame that has no end
        assert_unreadable(patient, upstream, seen)


def assert_unreadable(patient: RunningGateway, upstream: ScriptedUpstream, seen: Any) -> None:
    assert seen.status == 502, seen
    assert seen.error == {"type": "api_error", "message": "upstream sent an answer in an encoding that can't be read"}
    records = assert_ledger_adds_up(patient, upstream, ended_well={seen.request_id: False})
    assert {record["state"] for record in records if record["request_id"] == seen.request_id} == {"upstream_error"}
