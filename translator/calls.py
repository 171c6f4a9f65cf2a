"""A client's request on its way to an upstream: what is sent, and how its answer comes back.

The pump asks a call for a `Prepared` before each attempt, since the same request is written differently for each
upstream model. Which dialects meet is decided here and nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from secrets import token_bytes
from typing import Protocol
from zlib import crc32

import orjson

from keys.entries import CredentialEntry, ModelEntry, UpstreamEntry
from translator.core.anthropic.encoder import Encoder
from translator.core.anthropic.message import render_message
from translator.core.anthropic.request import MessagesRequest
from translator.core.errors import ClientError
from translator.core.events import Event, MessageDelta, StopReason, Usage, UsageSource
from translator.core.exchange import Exchange, Translated
from translator.core.facts import ModelFacts
from translator.core.openai_chat.adapt import Adaptation, adapt, lesson
from translator.core.openai_chat.decoder import Decoder
from translator.core.openai_chat.errors import read_error
from translator.core.openai_chat.request import render_request
from translator.core.profiles import Profile, profile_named

ID_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 24


def new_id(prefix: str) -> str:
    """Make an id like `msg_4sV…`, with 140 random bits."""
    number = int.from_bytes(token_bytes(18))
    letters = []
    for _ in range(ID_LENGTH):
        number, place = divmod(number, len(ID_ALPHABET))
        letters.append(ID_ALPHABET[place])
    return f"{prefix}_{''.join(letters)}"


def kind_of(prompt: bytes) -> str:
    """Return a short mark that is the same for the same prompt."""
    return f"{crc32(prompt):x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where one attempt goes."""

    upstream: UpstreamEntry
    #: The upstream model's name as it is sent.
    model_name: str
    #: None when nothing is known of the model.
    model: ModelEntry | None
    credential: CredentialEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One attempt, ready to be sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    exchange: Exchange
    #: Reads an answer that isn't 200: status, headers, body.
    read_error: Callable[[int, Mapping[str, str], bytes], ClientError]
    #: Reads the text of a 400: what it teaches about the upstream model; None when nothing.
    learn: Callable[[str], Adaptation | None] = lambda _: None
    #: What the request lost or what was mended in it, as short codes.
    notes: tuple[str, ...] = ()


class Call(Protocol):
    """A client's request to a model."""

    #: Model alias as the client named it.
    alias: str
    stream: bool
    #: Input tokens, estimated.
    estimate: int
    max_tokens: int | None
    session_id: str | None
    #: The same for the same prompt.
    kind: str

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        """Write the request for one attempt.

        Raises:
            InvalidRequest: This upstream can't be asked so.
        """


class MessagesCall:
    """`POST /v1/messages`."""

    def __init__(
        self,
        request: MessagesRequest,
        *,
        request_id: str,
        session_id: str | None,
        estimate: int,
        headers: Mapping[str, str],
    ) -> None:
        self.request = request
        self.alias = request.model
        self.stream = request.stream
        self.estimate = estimate
        self.max_tokens = request.max_tokens
        self.session_id = session_id or request.session_id
        self.kind = kind_of(orjson.dumps(request.messages[-1]))
        self._request_id = request_id
        self._headers = headers

    def empty_answer(self) -> bytes:
        """Answer `max_tokens: 0`, which warms a cache that Bridge doesn't have, without an upstream."""
        usage = Usage(input_tokens=self.estimate, source=UsageSource.ESTIMATED)
        end = MessageDelta(stop_reason=StopReason.MAX_TOKENS, usage=usage)
        return orjson.dumps(render_message([end], message_id=new_id("msg"), model=self.alias))

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        profile = profile_of(goal.upstream).for_model(goal.model_name)
        rendered = render_request(self.request, profile=profile, model=facts_of(goal))
        body = adapt(rendered.body, lessons)
        message_id = new_id("msg")
        secrets = (goal.credential.secret(),)
        decoder = Decoder(rendered.answer, profile=profile, new_id=new_id, secrets=secrets)
        encoder = Encoder(
            message_id=message_id, model=self.alias, request_id=self._request_id, input_estimate=self.estimate
        )

        def render_whole(events: Sequence[Event]) -> bytes:
            return orjson.dumps(render_message(events, message_id=message_id, model=self.alias))

        return Prepared(
            url=f"{goal.upstream.base_url.rstrip('/')}/chat/completions",
            headers=_bearer(goal, profile),
            body=orjson.dumps(body),
            exchange=Translated(decoder, encoder, render_whole),
            read_error=partial(read_error, requested_model=self.alias, secrets=secrets),
            learn=partial(lesson, body=body),
            notes=rendered.notes,
        )


def _bearer(goal: Goal, profile: Profile) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {goal.credential.secret()}",
        **profile.headers,
    }


def facts_of(goal: Goal) -> ModelFacts:
    """Return what is known of the goal's model, in the core's words."""
    if goal.model is None:
        return ModelFacts(name=goal.model_name)
    known = goal.model
    return ModelFacts(
        name=goal.model_name,
        context_window=known.context_window,
        max_output_tokens=known.max_output_tokens,
        vision=known.vision,
        pdf=known.pdf,
        reasoning=known.reasoning,
        tools="emulated" if known.tools == "emulated" else "native",
    )


def profile_of(upstream: UpstreamEntry) -> Profile:
    """Return the upstream's profile with its own overrides."""
    return _profile(upstream.profile or "plain", orjson.dumps(dict(upstream.profile_overrides)))


@lru_cache(maxsize=256)
def _profile(name: str, overrides: bytes) -> Profile:
    return profile_named(name, orjson.loads(overrides))
