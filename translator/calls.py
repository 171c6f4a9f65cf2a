"""A client's request on its way to an upstream: what is sent, and how its answer comes back.

The pump asks a call for a `Prepared` before each attempt, since the same request is written differently for each
upstream model. The calls themselves are `translator.messages_call` and `translator.chat_call`, one for each endpoint
that asks a model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from secrets import token_bytes
from typing import Protocol
from zlib import crc32

import orjson

from keys.entries import CredentialEntry, ModelEntry, Target, UpstreamEntry
from keys.models import PLAIN, Dialect
from translator.core.errors import ClientError
from translator.core.exchange import Exchange
from translator.core.facts import ModelFacts
from translator.core.openai_chat.adapt import Adaptation
from translator.core.profiles import Profile, profile_named
from translator.long_history import LongHistory

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
    #: What this model's own counts of input have been to our estimates.
    input_factor: float = 1.0

    @property
    def profile(self) -> Profile:
        """The upstream's profile with its own overrides, for this model."""
        return profile_of(self.upstream).for_model(self.model_name)

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model, in the core's words."""
        return facts_of(self.model_name, self.model)

    @property
    def continue_rounds(self) -> int:
        """How often the upstream may be asked to go on with an answer that it cut short."""
        return self.model.continue_rounds if self.model else 0

    @property
    def emulates_tools(self) -> bool:
        """Whether tools are described to the model in words."""
        return emulates_tools(self.upstream, self.model)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in anything that the client is told."""
        return (self.credential.secret(),)

    def url(self, path: str) -> str:
        return f"{self.upstream.base_url.rstrip('/')}{path}"

    def bearer_headers(self) -> dict[str, str]:
        """Headers for an upstream that takes its secret as a bearer token."""
        return {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self.credential.secret()}",
            **self.profile.headers,
        }


class Further(Protocol):
    """How an upstream is asked to go on with its answer."""

    @property
    def tokens_left(self) -> int | None:
        """Output tokens that the client still allows; None for any number."""

    def prepare(self, before: "Prepared", goal: Goal) -> "Prepared":
        """Write the request that asks for more, whose answer goes on in the same exchange."""


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
    #: The estimate of what is sent, where that isn't what the call came with.
    estimate: int | None = None
    #: None where the upstream isn't asked to go on with what it cuts short.
    further: Further | None = None
    #: Headers for the client.
    told: Mapping[str, str] = field(default_factory=dict)


class Call(Protocol):
    """A client's request to a model."""

    #: Model alias as the client named it.
    alias: str
    stream: bool
    max_tokens: int | None
    session_id: str | None
    #: The same for the same prompt.
    kind: str
    #: Bytes of the client's body.
    size: int

    @property
    def estimate(self) -> int:
        """Input tokens, estimated."""

    @property
    def history(self) -> LongHistory | None:
        """The messages, where they may be compacted."""

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        """Write the request for one attempt.

        Raises:
            InvalidRequest: This upstream can't be asked so.
        """


def facts_of(name: str, known: ModelEntry | None) -> ModelFacts:
    if known is None:
        return ModelFacts(name=name)
    return ModelFacts(
        name=name,
        context_window=known.context_window,
        max_output_tokens=known.max_output_tokens,
        vision=known.vision,
        pdf=known.pdf,
        reasoning=known.reasoning,
        tools="emulated" if known.tools == "emulated" else "native",
    )


def most_output(max_tokens: int, targets: Sequence[Target]) -> int:
    """Return how much an answer may hold: no more than the most that one of the models makes, where that is known."""
    most = [target.model.max_output_tokens if target.model else None for target in targets]
    known = [tokens for tokens in most if tokens is not None]
    return min(max_tokens, max(known)) if known and len(known) == len(most) else max_tokens


def emulates_tools(upstream: UpstreamEntry, model: ModelEntry | None) -> bool:
    """Tell whether tools are described to a model in words; what passes untouched is not."""
    return model is not None and model.tools == "emulated" and upstream.dialect != Dialect.ANTHROPIC


def profile_of(upstream: UpstreamEntry) -> Profile:
    """Return the upstream's profile with its own overrides."""
    return _profile(upstream.profile or PLAIN, orjson.dumps(dict(upstream.profile_overrides)))


@lru_cache(maxsize=256)
def _profile(name: str, overrides: bytes) -> Profile:
    return profile_named(name, orjson.loads(overrides))
