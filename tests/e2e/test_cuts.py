"""A stream cut at any byte ends in an error, unless its answer was complete: never an invented end."""

import pytest

from tests.e2e.client import Seen, ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

#: Co-prime to the lengths of frames, so that every part of a frame is met.
STEP = 29
WORDS = 4
TEXT = "the sea was low "


def stream_of(upstream: ScriptedUpstream, model: str) -> bytes:
    """Give the bytes that the upstream sends when nothing is cut."""
    body = {"model": model, "stream": True, "stream_options": {"include_usage": True}, "messages": []}
    return upstream.client.post("chat/completions", json=body).raise_for_status().content


def is_honest(seen: Seen, *, is_complete: bool) -> bool:
    if seen.is_broken:
        return False
    if seen.ended_well:
        return is_complete and seen.text == TEXT
    return seen.error is not None and TEXT.startswith(seen.text)


@pytest.mark.parametrize("ending", ["cut", "eof"])
def test_no_cut_makes_an_end(shared: RunningGateway, upstream: ScriptedUpstream, ending: str) -> None:
    # The name is part of each frame, so that of the whole stream must be as long as the others.
    whole = stream_of(upstream, f"script/{'ok,':3},frames={WORDS},wait=000s")
    names = {byte: f"script/{ending:3},frames={WORDS},byte={byte:04}" for byte in range(0, len(whole), STEP)}
    complete_at = whole.index(b"\n\n", whole.index(b'"finish_reason":"stop"')) + 1
    upstream.reset()

    seen = {byte: ask(shared, name) for byte, name in names.items()}

    assert not {byte: one for byte, one in seen.items() if not is_honest(one, is_complete=byte >= complete_at)}
    assert any(one.ended_well for one in seen.values())
    assert_ledger_adds_up(shared, upstream, ended_well={one.request_id: one.ended_well for one in seen.values()})
