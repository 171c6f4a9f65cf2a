"""The call that has a summary written: an ordinary one, by a member, to a model."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import orjson

from translator.bookkeeping import Caller
from translator.calls import Call, Goal, Prepared, new_id
from translator.core.anthropic.request import MessagesRequest
from translator.core.compaction.fingerprints import prefix_fingerprints
from translator.core.estimate import estimate_input_tokens
from translator.core.openai_chat.adapt import Adaptation
from translator.messages_call import MessagesCall

__all__ = ["Key", "SummaryCall", "call_for", "caller_for", "key_of", "text_of"]

#: Who calls, on the record of a summary.
CLIENT = "Bridge"
#: Says on the record of a summary what it is: as a note, and as what the call is for, in Claude Code's word for it.
NOTE = "compaction"

#: A member's id and the digest of a conversation.
type Key = tuple[int, str]


class SummaryCall(MessagesCall):
    """Asks a model for a summary."""

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        prepared = super().prepare(goal, lessons)
        return replace(prepared, notes=(NOTE, *prepared.notes))


def key_of(user_id: int, call: Call, request: MessagesRequest) -> Key:
    """Name a conversation: whose it is, the client's session, the alias, and how it begins.

    Sub-agents share their session and begin differently; clients without sessions are told apart by beginnings alone. That
    two conversations might still share a key does no harm: a summary is used only where all that it covers is the same.
    """
    head = next((place + 1 for place, message in enumerate(request.messages) if message["role"] == "user"), 0)
    opening = prefix_fingerprints(request.messages, [head])[head]
    parts = orjson.dumps([user_id, call.session_id or "", call.alias, opening])
    return user_id, sha256(parts).hexdigest()


def caller_for(caller: Caller, *, arrived_at: float, is_alias_given: bool) -> Caller:
    """Return who asks for a summary: the same member and token, in a request of its own.

    The token's limit of calls at once is left aside, since a summary must not keep out the call that it is written for;
    and its scopes are, where the operator chose the alias.
    """
    token = replace(caller.token, concurrency=None)
    if is_alias_given:
        token = replace(token, scopes=())
    return replace(
        caller,
        token=token,
        request_id=new_id("req"),
        client_name=CLIENT,
        client_version="",
        agent_kind=NOTE,
        arrived_at=arrived_at,
    )


def call_for(request: MessagesRequest, request_id: str) -> SummaryCall:
    return SummaryCall(
        request,
        size=len(orjson.dumps(request.body)),
        request_id=request_id,
        session_id=None,
        estimate=estimate_input_tokens(request),
        headers=(),
        may_compact=False,
    )


def text_of(body: bytes) -> str:
    """Return the text of a whole answer; nothing where it holds none."""
    match orjson.loads(body):
        case {"content": list(blocks)}:
            return "\n\n".join(block["text"] for block in blocks if isinstance(block, dict) and "text" in block)
        case _:
            return ""
