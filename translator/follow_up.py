"""A call that asks an upstream to go on with an answer that it cut short."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from translator.calls import Call, Goal, Prepared
from translator.core.openai_chat.adapt import Adaptation
from translator.core.openai_chat.decoder import Decoder
from translator.core.openai_chat.errors import read_error
from translator.core.openai_chat.follow_up import follow_up
from translator.long_history import LongHistory

__all__ = ["FOLLOW_UP", "ChatFurther", "FollowUp"]

#: Says on a record that its request was one to go on.
FOLLOW_UP = "follow_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFurther:
    """How a chat upstream is asked to go on: with what it was sent first, and what it has written since."""

    alias: str
    body: Mapping[str, Any]
    decoder: Decoder

    @property
    def tokens_left(self) -> int | None:
        return self.decoder.tokens_left

    def prepare(self, before: Prepared, goal: Goal) -> Prepared:
        body = follow_up(self.body, text=self.decoder.text, limit=self.tokens_left, profile=goal.profile)
        self.decoder.resume(secrets=goal.secrets)
        return replace(
            before,
            headers=goal.bearer_headers(),
            body=orjson.dumps(body),
            read_error=partial(read_error, requested_model=self.alias, secrets=goal.secrets),
            learn=lambda _: None,
            notes=(FOLLOW_UP,),
            estimate=None,
        )


class FollowUp:
    """The call of a later round; what it says is the first call's.

    Args:
        before: How the round before was prepared; its answer wants more.
        estimate: Its input tokens.
    """

    history: LongHistory | None = None

    def __init__(self, call: Call, before: Prepared, *, estimate: int) -> None:
        assert before.further is not None  # noqa: S101  (else its answer doesn't want more)
        self.alias = call.alias
        self.stream = call.stream
        self.session_id = call.session_id
        self.kind = call.kind
        self.size = call.size
        self.estimate = estimate + before.exchange.usage.output_tokens
        self.max_tokens = before.further.tokens_left
        self._before, self._further = before, before.further

    def prepare(self, goal: Goal, _lessons: Sequence[Adaptation]) -> Prepared:
        return self._further.prepare(self._before, goal)
