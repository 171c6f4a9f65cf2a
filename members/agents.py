"""Which requests of a session belong to which agent: by the client's word, or else by a guess.

Claude Code has sent a sub-agent's id with each of its requests (`x-claude-code-agent-id`) since version 2.1.197 at the
latest; the main agent sends none, and both send the same session id. With CLAUDE_CODE_GATEWAY_HINT_HEADERS=1 it also
says what a request is for. Seen on the wire of 2.1.332, and read in the program of 2.1.197.

Where nobody says it, conversations do: each request of one carries all that went before, so its input grows. That is
inexact where a conversation was compacted or two have the same length; good enough to see where the money went.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

#: The earliest version whose program is known to name sub-agents.
NAMES_AGENTS_FROM = (2, 1, 197)
CLAUDE_CODE = "claude-cli"
VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
#: What Claude Code calls requests that belong to no sub-agent.
MAIN_KINDS = {
    "": "main agent",
    "main": "main agent",
    "compaction": "compaction of the history",
    "auxiliary": "side calls: titles, names, summaries",
    "side_reply": "side replies",
}
#: A kind that says no more than that it is a sub-agent.
PLAIN_KINDS = ("", "subagent")
#: A request belongs to a conversation if its input is at least this share of what the last one had.
KEPT_SHARE = 0.9
#: So many sub-agents are shown one by one, those with the most input.
AGENTS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt of a session, as far as its story needs it."""

    started_at: datetime
    duration_ms: int = 0
    alias: str
    #: The model that answered, and the credential that it was asked with.
    upstream_model: str = ""
    credential_id: int | None = None
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0
    price_version: int | None = None
    agent_id: str = ""
    agent_kind: str = ""
    client_name: str = ""
    client_version: str = ""
    #: Whether the upstream counted its tokens to the end.
    is_counted: bool = True
    #: Whether its record is of a time when agents were noted.
    is_noted: bool = True

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def ended_at(self) -> datetime:
        return self.started_at + timedelta(milliseconds=self.duration_ms)

    def continues(self, last: "Request") -> bool:
        """Tell whether it can be the next of the conversation that stands at `last`."""
        return (
            last.ended_at <= self.started_at
            and self.alias == last.alias
            and self.all_input_tokens >= last.all_input_tokens * KEPT_SHARE
        )


@dataclass(slots=True)
class Part:
    """Requests of a session that belong together, oldest first."""

    #: "main agent", "sub-agent Explore", "single calls" and so on.
    name: str
    alias: str
    requests: list[Request] = field(default_factory=list)

    @property
    def cost_nano(self) -> int:
        return sum(request.cost_nano for request in self.requests)

    @property
    def all_input_tokens(self) -> int:
        return sum(request.all_input_tokens for request in self.requests)

    @property
    def cache_read_tokens(self) -> int:
        return sum(request.cache_read_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        return sum(request.output_tokens for request in self.requests)

    @property
    def longest_input(self) -> int:
        return max(request.all_input_tokens for request in self.requests)

    @property
    def first_at(self) -> datetime:
        return self.requests[0].started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A session's parts, and whether the client named them."""

    parts: list[Part]
    is_clients_word: bool


def parts_of(requests: Iterable[Request]) -> Told:
    """Put the requests of a session, oldest first, into parts; the main agent's come first.

    Requests without input failed before they were counted, and are left out.
    """
    counted = [request for request in requests if request.all_input_tokens]
    if names_agents(counted):
        return Told(parts=_said(counted), is_clients_word=True)
    return Told(parts=_guessed(counted), is_clients_word=False)


def names_agents(requests: Sequence[Request]) -> bool:
    """Tell whether the client names its sub-agents, so that a request without a name is the main agent's."""
    if any(request.agent_id or request.agent_kind for request in requests):
        return True
    return bool(requests) and all(request.is_noted and _can_name(request) for request in requests)


def conversations(requests: Iterable[Request]) -> list[list[Request]]:
    """Split requests into conversations: each goes to the longest one that it can continue, else it begins one."""
    found: list[list[Request]] = []
    for request in requests:
        candidates = [one for one in found if request.continues(one[-1])]
        if candidates:
            max(candidates, key=lambda one: one[-1].all_input_tokens).append(request)
        else:
            found.append([request])
    return found


def _can_name(request: Request) -> bool:
    version = VERSION.match(request.client_version)
    return (
        request.client_name == CLAUDE_CODE
        and version is not None
        and tuple(int(number) for number in version.groups()) >= NAMES_AGENTS_FROM
    )


def _said(requests: Sequence[Request]) -> list[Part]:
    main: dict[tuple[str, str], Part] = {}
    agents: dict[tuple[str, str], Part] = {}
    for request in requests:
        if request.agent_id:
            kind = "" if request.agent_kind in PLAIN_KINDS else f" {request.agent_kind}"
            part = agents.setdefault(
                (request.agent_id, request.alias), Part(name=f"sub-agent{kind}", alias=request.alias)
            )
        else:
            name = MAIN_KINDS.get(request.agent_kind, request.agent_kind)
            part = main.setdefault((name, request.alias), Part(name=name, alias=request.alias))
        part.requests.append(request)
    by_input = sorted(agents.values(), key=lambda part: -part.all_input_tokens)
    return [
        *sorted(main.values(), key=lambda part: -part.all_input_tokens),
        *sorted(by_input[:AGENTS_MAX], key=lambda part: part.first_at),
        *_gathered("other sub-agents", by_input[AGENTS_MAX:]),
    ]


def _guessed(requests: Sequence[Request]) -> list[Part]:
    """Take the conversation with the most input for the main agent's, others with more than one request for
    sub-agents', and gather by model what was asked only once."""
    found = [Part(name="sub-agent", alias=one[0].alias, requests=one) for one in conversations(requests)]
    if not found:
        return []
    main, *others = sorted(found, key=lambda part: -part.all_input_tokens)
    main.name = "main agent"
    agents = [part for part in others if len(part.requests) > 1]
    return [
        main,
        *sorted(agents[:AGENTS_MAX], key=lambda part: part.first_at),
        *_gathered("smaller conversations", agents[AGENTS_MAX:]),
        *_gathered("single calls", [part for part in others if len(part.requests) == 1]),
    ]


def _gathered(name: str, found: Iterable[Part]) -> Iterable[Part]:
    """Put parts of one model together, oldest request first."""
    by_model: dict[str, Part] = {}
    for part in found:
        by_model.setdefault(part.alias, Part(name=name, alias=part.alias)).requests += part.requests
    for gathered in by_model.values():
        gathered.requests.sort(key=lambda request: request.started_at)
    return by_model.values()
