"""A call that is watched on its way: what goes to each upstream and what comes back, with our secrets masked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from translator.calls import Call, Goal, Prepared
from translator.core.events import UsageSource
from translator.core.exchange import Exchange
from translator.core.openai_chat.adapt import Adaptation

#: No more of an answer is kept than this, in bytes.
HEARD_MAX = 256 * 1024
#: Headers that carry a credential, in whichever dialect.
SECRET_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
MASK = "•••"


@dataclass(slots=True, kw_only=True)
class Sent:
    """One attempt, as it went over the wire."""

    upstream: str
    model_name: str
    credential: str
    url: str
    #: Without the credential.
    headers: dict[str, str]
    #: The body, indented.
    body: str
    notes: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)
    exchange: Exchange = field(repr=False)
    heard: bytearray = field(default_factory=bytearray)

    @property
    def answer(self) -> str:
        """What the upstream said, as text."""
        return masked(bytes(self.heard).decode("utf-8", "replace"), self.secrets)

    @property
    def usage_source(self) -> UsageSource:
        """Who counted the tokens, as the usage record has it."""
        return self.exchange.usage.source

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What was dropped or repaired on the way there and back."""
        return (*self.notes, *self.exchange.notes)


class WatchedCall:
    """A call that remembers its attempts."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.sent: list[Sent] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        prepared = self._call.prepare(goal, lessons)
        sent = Sent(
            upstream=goal.upstream.name,
            model_name=goal.model_name,
            credential=goal.credential.label,
            url=masked(prepared.url, goal.secrets),
            headers={
                name: MASK if name.lower() in SECRET_HEADERS else masked(value, goal.secrets)
                for name, value in prepared.headers.items()
            },
            body=masked(orjson.dumps(orjson.loads(prepared.body), option=orjson.OPT_INDENT_2).decode(), goal.secrets),
            notes=prepared.notes,
            secrets=goal.secrets,
            exchange=prepared.exchange,
        )
        self.sent.append(sent)

        def read_error(status: int, headers: Any, body: bytes) -> Any:
            _keep(sent, body)
            return prepared.read_error(status, headers, body)

        overheard = cast("Exchange", _Overheard(prepared.exchange, sent))
        return replace(prepared, exchange=overheard, read_error=read_error)


class _Overheard:
    """An exchange whose upstream side is kept."""

    def __init__(self, exchange: Exchange, sent: Sent) -> None:
        self._exchange = exchange
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def feed(self, chunk: bytes) -> bytes:
        _keep(self._sent, chunk)
        return self._exchange.feed(chunk)

    def feed_body(self, body: bytes) -> bytes:
        _keep(self._sent, body)
        return self._exchange.feed_body(body)

    def whole(self, body: bytes) -> bytes:
        _keep(self._sent, body)
        return self._exchange.whole(body)


def masked(text: str, secrets: Sequence[str]) -> str:
    """Take our secrets out of a text."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _keep(sent: Sent, data: bytes) -> None:
    sent.heard += data[: HEARD_MAX - len(sent.heard)]
