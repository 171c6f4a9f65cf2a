"""What a client sees, and what the ledger says, for each fault of an upstream, by when it comes."""

from dataclasses import dataclass, replace

import pytest

from tests.e2e.client import Seen, ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import IMPATIENT, MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell of the fault matrix. Every case has an upstream, a credential and a route of its own."""

    script: str
    #: What the client may be told: the status before the stream, the error's type.
    status: int | set[int] = 200
    error: str | None = None
    #: What the record says.
    state: str
    sources: set[str]
    #: What it must confess.
    notes: frozenset[str] = frozenset()
    #: Words that a client must see all the same.
    words: int = 0
    stream: bool = True

    @property
    def name(self) -> str:
        """Its upstream, its route, and the end of its key."""
        plain = "".join(letter if letter.isalnum() else "-" for letter in self.script)
        return f"{plain}-{'stream' if self.stream else 'whole'}"

    def __str__(self) -> str:
        return self.name


NOTHING_USED = {"unknown", "upstream", "estimated"}
CUT_SHORT = {"partial", "estimated"}

BEFORE_FIRST_BYTE = [
    Case(script="cut", status=500, error="api_error", state="truncated", sources=NOTHING_USED),
    Case(script="reset", status=500, error="api_error", state="truncated", sources=NOTHING_USED),
    Case(script="silent", status=504, error="timeout_error", state="timeout", sources={"unknown"}),
    Case(script="silent,byte=0", status=504, error="timeout_error", state="timeout", sources={"unknown"}),
    Case(script="pings,gap=200ms", status=504, error="timeout_error", state="timeout", sources={"unknown"}),
    Case(script="drip=300ms", status=504, error="timeout_error", state="timeout", sources={"unknown"}),
    Case(script="cut,byte=0", status=500, error="api_error", state="truncated", sources=NOTHING_USED),
    Case(script="eof,byte=0", status=500, error="api_error", state="truncated", sources=NOTHING_USED),
    Case(script="empty", status=500, error="api_error", state="truncated", sources=NOTHING_USED),
    Case(script="html", status=500, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="html,status=502", status=500, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="error200=429", status=429, error="rate_limit_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="error200", status=500, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(
        script="errorframe=429,frame=0",
        status=429,
        error="rate_limit_error",
        state="upstream_error",
        sources=NOTHING_USED | CUT_SHORT,
    ),
    Case(script="gzipbomb=200", status=502, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(
        script="redirect=http://127.0.0.1:1/",
        status=502,
        error="api_error",
        state="upstream_error",
        sources=NOTHING_USED,
    ),
    Case(script="status=400", status=400, error="invalid_request_error", state="upstream_error", sources=NOTHING_USED),
    # Our own credential is at fault, so the client mustn't think that its token is.
    Case(script="status=401", status={500, 502, 503}, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=402", status=402, error="billing_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=403", status={500, 502, 503}, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=404", status=404, error="not_found_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=413", status=413, error="request_too_large", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=422", status=400, error="invalid_request_error", state="upstream_error", sources=NOTHING_USED),
    Case(
        script="status=429,retry_after=7",
        status=429,
        error="rate_limit_error",
        state="upstream_error",
        sources=NOTHING_USED,
    ),
    Case(script="status=500", status=500, error="api_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=503", status=529, error="overloaded_error", state="upstream_error", sources=NOTHING_USED),
    Case(script="status=529", status=529, error="overloaded_error", state="upstream_error", sources=NOTHING_USED),
]

MID_STREAM = [
    Case(script="cut,frame=7,gap=9ms", error="api_error", state="truncated", sources=CUT_SHORT, words=7),
    Case(script="reset,frame=7,gap=9ms", error="api_error", state="truncated", sources=CUT_SHORT, words=7),
    Case(script="eof,frame=7,gap=9ms", error="api_error", state="truncated", sources=CUT_SHORT, words=7),
    Case(script="silent,frame=7,gap=9ms", error="timeout_error", state="timeout", sources=CUT_SHORT, words=7),
    Case(script="errorframe,frame=7,gap=9ms", error="api_error", state="upstream_error", sources=CUT_SHORT, words=7),
    Case(
        script="errorframe=429,frame=7,gap=9ms",
        error="rate_limit_error",
        state="upstream_error",
        sources=CUT_SHORT,
        words=7,
    ),
    Case(
        script="errorframe=503,frame=7,gap=9ms",
        error="overloaded_error",
        state="upstream_error",
        sources=CUT_SHORT,
        words=7,
    ),
    Case(script="bigframe,frame=7,gap=9ms", error="api_error", state="upstream_error", sources=CUT_SHORT, words=7),
    Case(script="cut,byte=1001", error="api_error", state="truncated", sources=CUT_SHORT),
    Case(script="nodone,nofinish", error="api_error", state="truncated", sources=CUT_SHORT | {"upstream"}),
]

AT_CLOSE = [
    Case(script="nodone", state="ok", sources={"upstream"}, words=10),
    Case(script="reset_at_close", state="ok", sources={"upstream"}, words=10),
    Case(script="nousage", state="ok", sources={"estimated"}, words=10),
    Case(script="nousage,nodone", state="ok", sources={"estimated"}, words=10),
    *(
        Case(script=f"usage={lie}", state="ok", sources={"partial"}, notes=frozenset({"usage_absurd"}), words=10)
        for lie in ("-5", "nonsense", "50000", "99999999999")
    ),
    Case(script="crlf,bytes,frames=3", state="ok", sources={"upstream"}, words=3),
    Case(script="json", state="ok", sources={"upstream"}, words=10),
    Case(script="pings=5", state="ok", sources={"upstream"}, words=10),
]

WHOLE = [
    replace(case, stream=False)
    for case in [*BEFORE_FIRST_BYTE, *AT_CLOSE]
    if case.script
    in {
        "cut", "reset", "silent", "html", "error200=429", "status=400", "status=401", "status=429,retry_after=7",
        "status=500", "nousage",
    }
]  # fmt: skip
CASES = [*BEFORE_FIRST_BYTE, *MID_STREAM, *AT_CLOSE, *WHOLE]


@pytest.fixture(scope="module")
def faulty(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """A gateway with an upstream and a route for each case, so that no fault of one touches another's credential."""
    commands = [
        words
        for case in CASES
        for words in (
            upstream_words(case.name, upstream_process.base_url, f"sk-{case.name}"),
            route_words(case.name, case.name, f"script/{case.script}"),
        )
    ]
    for name, script in (("denied", "status=401"), ("garbled", "malformed,frame=4")):
        commands.append(upstream_words(name, upstream_process.base_url, f"sk-{name}"))
        commands.append(route_words(name, name, f"script/{script}"))

    def hurry(made: RunningGateway) -> None:
        for case in CASES:
            if case.state == "timeout":
                made.hurry(case.name, **IMPATIENT)

    return make_gateway(commands=commands, prepare=hurry)


def check(case: Case, faulty: RunningGateway, upstream: ScriptedUpstream) -> Seen:
    """Make the case's call; hold what the client saw and the record of it against the case."""
    seen = ask(faulty, case.name, stream=case.stream)

    told = seen.error
    assert seen.status in ({case.status} if isinstance(case.status, int) else case.status), seen
    assert (told and told["type"]) == case.error, seen
    assert not seen.is_broken
    assert "sk-" not in str(told)
    assert "127.0.0.1" not in str(told)
    records = assert_ledger_adds_up(faulty, upstream, ended_well={seen.request_id: case.error is None})
    mine = [record for record in records if record["request_id"] == seen.request_id]
    assert mine, seen
    for record in mine:
        assert record["state"] == case.state, record
        assert record["source"] in case.sources, record
        assert case.notes <= set(record["notes"]), record
    return seen


@pytest.mark.parametrize("case", BEFORE_FIRST_BYTE, ids=str)
def test_a_fault_before_the_first_byte_is_a_status(
    case: Case, faulty: RunningGateway, upstream: ScriptedUpstream
) -> None:
    check(case, faulty, upstream)


@pytest.mark.parametrize("case", MID_STREAM, ids=str)
def test_a_fault_in_the_middle_is_an_error_event_and_nothing_after_it(
    case: Case, faulty: RunningGateway, upstream: ScriptedUpstream
) -> None:
    seen = check(case, faulty, upstream)

    kinds = [event["type"] for event in seen.events]
    assert kinds[0] == "message_start"
    assert "message_stop" not in kinds
    assert "message_delta" not in kinds
    assert len(seen.text.split()) >= case.words


@pytest.mark.parametrize("case", AT_CLOSE, ids=str)
def test_an_answer_that_is_complete_is_delivered_however_its_stream_ends(
    case: Case, faulty: RunningGateway, upstream: ScriptedUpstream
) -> None:
    seen = check(case, faulty, upstream)

    assert len(seen.text.split()) == case.words
    assert seen.stop_reason == "end_turn"


@pytest.mark.parametrize("case", WHOLE, ids=str)
def test_a_whole_answer_fails_the_same_way(case: Case, faulty: RunningGateway, upstream: ScriptedUpstream) -> None:
    check(case, faulty, upstream)


def test_a_frame_that_cannot_be_read_is_never_passed_over_in_silence(
    faulty: RunningGateway, upstream: ScriptedUpstream
) -> None:
    seen = ask(faulty, "garbled")

    [record] = assert_ledger_adds_up(faulty, upstream, ended_well={seen.request_id: seen.ended_well})
    assert seen.error or "bad_frame" in record["notes"]


def test_a_client_learns_when_to_come_again(faulty: RunningGateway, upstream: ScriptedUpstream) -> None:
    case = next(case for case in CASES if case.script.startswith("status=429"))

    seen = ask(faulty, case.name)

    assert 1 <= float(seen.headers["retry-after"]) <= 7


def test_a_client_is_told_not_to_repeat_what_cannot_help(faulty: RunningGateway, upstream: ScriptedUpstream) -> None:
    seen = ask(faulty, "denied")

    assert seen.status >= 500
    assert seen.headers["x-should-retry"] == "false"
