"""`POST /v1/messages` on its way to an upstream of any dialect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from math import ceil

import orjson

from translator.calls import Goal, Prepared, kind_of, new_id
from translator.core.anthropic import render as anthropic
from translator.core.anthropic.encoder import PING, Encoder
from translator.core.anthropic.message import render_message
from translator.core.anthropic.passthrough import MessageReader
from translator.core.anthropic.request import MessagesRequest
from translator.core.anthropic.thinking import is_refused, without_thinking
from translator.core.compaction.plan import Compacted
from translator.core.emulation.prompt import added_tokens
from translator.core.errors import InvalidRequest
from translator.core.events import Event, MessageDelta, StopReason, Usage, UsageSource
from translator.core.exchange import EventDecoder, Passed, Translated
from translator.core.openai_chat import request as openai_chat
from translator.core.openai_chat.adapt import Adaptation, adapt, lesson
from translator.core.openai_chat.decoder import Decoder
from translator.core.openai_chat.errors import read_error
from translator.core.openai_responses import request as openai_responses
from translator.core.openai_responses.decoder import Decoder as ResponsesDecoder
from translator.follow_up import ChatFurther
from translator.long_history import LongHistory, headers_of, notes_of

#: What is learnt of an `anthropic` upstream: it can't read the thinking in one conversation.
UNREASONED = Adaptation(key="messages", change="unreasoned")


class MessagesCall:
    """A parsed request, and who it is for."""

    def __init__(
        self,
        request: MessagesRequest,
        *,
        size: int,
        request_id: str,
        session_id: str | None,
        estimate: int,
        headers: Iterable[tuple[str, str]],
        may_compact: bool = True,
    ) -> None:
        self.request = request
        self.history = LongHistory(request, estimate=estimate, may_compact=may_compact)
        self.alias = request.model
        self.stream = request.stream
        self.max_tokens = request.max_tokens
        self.session_id = session_id or request.session_id
        self.kind = kind_of(orjson.dumps(request.messages[-1]))
        self.size = size
        self._request_id = request_id
        self._headers = headers

    def empty_answer(self) -> bytes:
        """Answer `max_tokens: 0`, which warms a cache that Bridge doesn't have, without an upstream."""
        usage = Usage(input_tokens=self.estimate, source=UsageSource.ESTIMATED)
        end = MessageDelta(stop_reason=StopReason.MAX_TOKENS, usage=usage)
        return orjson.dumps(render_message([end], message_id=new_id("msg"), model=self.alias))

    @property
    def estimate(self) -> int:
        """Input tokens that are expected to be sent."""
        return self.history.estimate

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        plan = self.history.plan(goal.model, goal.input_factor)
        compacted = plan.compacted if plan else None
        sent = self._sent_as(compacted)
        window = goal.facts.context_window
        if window is not None and sent.estimate_for(goal) > window:
            whole = ceil(self.history.whole * goal.input_factor)
            # Claude Code compacts its history on these words, and on no others.
            raise InvalidRequest(path="", reason=f"prompt is too long: {whole} tokens > {window} maximum")
        prepared = DIALECTS[goal.upstream.dialect](sent, goal, lessons)
        if goal.emulates_tools:
            prepared = replace(prepared, estimate=sent.estimate + added_tokens(sent.request))
        if sent is self:
            return prepared
        told, notes = (headers_of(compacted), notes_of(compacted)) if compacted else ({}, ())
        estimate = prepared.estimate or sent.estimate
        return replace(prepared, told=told, estimate=estimate, notes=(*notes, *prepared.notes))

    def _sent_as(self, compacted: Compacted | None) -> "MessagesCall":
        """Return the call with the messages that one attempt sends."""
        if compacted is None and self.history.estimate == self.history.whole:
            return self
        sent = copy(self)
        request, estimate = (compacted.request, compacted.after) if compacted else (self.request, self.history.whole)
        sent.request, sent.history = request, LongHistory(request, estimate=estimate, may_compact=False)
        return sent

    def estimate_for(self, goal: Goal) -> int:
        """Return the input tokens as this model will count them."""
        added = added_tokens(self.request) if goal.emulates_tools else 0
        return ceil((self.estimate + added) * goal.input_factor)

    def for_chat(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        """Translate to chat/completions."""
        profile = goal.profile
        rendered = openai_chat.render_request(
            self.request, profile=profile, model=goal.facts, input_estimate=self.estimate_for(goal)
        )
        body = adapt(rendered.body, lessons)
        # Whoever is held to a format would begin it anew.
        rounds = 0 if "response_format" in body else goal.continue_rounds
        answer = replace(rendered.answer, continue_rounds=rounds) if rounds else rendered.answer
        decoder = Decoder(answer, profile=profile, new_id=new_id, secrets=goal.secrets)
        return Prepared(
            url=goal.url("/chat/completions"),
            headers=goal.bearer_headers(),
            body=orjson.dumps(body),
            exchange=self._translated(decoder, goal),
            read_error=partial(read_error, requested_model=self.alias, secrets=goal.secrets),
            learn=partial(lesson, body=body),
            notes=rendered.notes,
            further=ChatFurther(alias=self.alias, body=body, decoder=decoder) if rounds else None,
        )

    def for_responses(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        """Translate to OpenAI's Responses API."""
        profile = goal.profile
        rendered = openai_responses.render_request(
            self.request, profile=profile, model=goal.facts, input_estimate=self.estimate_for(goal)
        )
        body = adapt(rendered.body, lessons)
        decoder = ResponsesDecoder(rendered.answer, profile=profile, new_id=new_id, secrets=goal.secrets)
        return Prepared(
            url=goal.url("/responses"),
            headers=goal.bearer_headers(),
            body=orjson.dumps(body),
            exchange=self._translated(decoder, goal),
            read_error=partial(read_error, requested_model=self.alias, secrets=goal.secrets),
            learn=partial(lesson, body=body),
            notes=rendered.notes,
        )

    def for_anthropic(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        """Pass the client's own body on, for another model name, and without thinking that was just refused."""
        estimate = self.estimate_for(goal)
        rendered = anthropic.render_request(self.request, model=goal.facts, input_estimate=estimate)
        body = without_thinking(rendered.body) if UNREASONED in lessons else rendered.body
        reader = MessageReader(
            request_id=self._request_id, model=self.alias, input_estimate=estimate, secrets=goal.secrets
        )
        return Prepared(
            url=goal.url("/messages"),
            headers=anthropic_headers(goal, self._headers),
            body=orjson.dumps(body),
            exchange=Passed(reader, ping=PING),
            read_error=partial(read_error, requested_model=self.alias, secrets=goal.secrets),
            learn=lambda refusal: UNREASONED if is_refused(refusal, body) else None,
            notes=rendered.notes,
        )

    def _translated(self, decoder: EventDecoder, goal: Goal) -> Translated:
        message_id = new_id("msg")
        encoder = Encoder(
            message_id=message_id,
            model=self.alias,
            request_id=self._request_id,
            input_estimate=self.estimate_for(goal),
        )

        def render_whole(events: Sequence[Event]) -> bytes:
            return orjson.dumps(render_message(events, message_id=message_id, model=self.alias))

        return Translated(decoder, encoder, render_whole, ping=PING)


#: How a Messages request is said to an upstream of each dialect.
DIALECTS: Mapping[str, Callable[[MessagesCall, Goal, Sequence[Adaptation]], Prepared]] = {
    "openai_chat": MessagesCall.for_chat,
    "openai_responses": MessagesCall.for_responses,
    "anthropic": MessagesCall.for_anthropic,
}


def anthropic_headers(goal: Goal, client_headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers for Anthropic's own API: our credential, the client's version and betas."""
    return {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "x-api-key": goal.credential.secret(),
        **anthropic.forwarded_headers(client_headers),
        **goal.profile.headers,
    }
