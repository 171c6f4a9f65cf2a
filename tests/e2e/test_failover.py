"""One credential fails and another serves: the client sees only the good answer, the ledger every attempt."""

import pytest

from tests.e2e.client import ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream

#: Faults of a credential that another one makes good.
PASSING = [
    "status=401",
    "status=402",
    "status=403",
    "status=429,retry_after=7",
    "status=500",
    "status=503",
    "reset",
    "empty",
]
#: Faults of the request: no other credential would help, and none may suffer for it.
LASTING = ["status=400", "status=413", "status=422"]
MODEL = "mock-n3-d0"
#: Good calls that pay for one retry, with some to spare.
CALLS_PER_RETRY = 6


def name_of(script: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in script)


@pytest.fixture(scope="module")
def pools(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """A pool of two credentials for each fault."""
    commands = [
        words
        for name in [*map(name_of, [*PASSING, *LASTING]), "calm", "rests", "once"]
        for words in (
            upstream_words(name, upstream_process.base_url, f"sk-{name}-a", f"sk-{name}-b"),
            route_words(name, name, MODEL),
        )
    ]
    return make_gateway(commands=commands)


def earn_a_retry(pools: RunningGateway, upstream: ScriptedUpstream) -> None:
    """Retries are a share of all calls, so that they never make a bad time worse."""
    for _ in range(CALLS_PER_RETRY):
        assert ask(pools, "calm").ended_well
    upstream.reset()


@pytest.mark.parametrize("script", PASSING)
def test_another_credential_makes_it_good(pools: RunningGateway, upstream: ScriptedUpstream, script: str) -> None:
    name = name_of(script)
    earn_a_retry(pools, upstream)
    # Whichever of the two is asked first fails, and only that once.
    upstream.script(script, model=MODEL, times=1)

    seen = ask(pools, name)

    assert seen.ended_well, (seen, pools.log()[-2000:])
    assert len({attempt["key_sha256"] for attempt in upstream.attempts()}) == 2
    records = assert_ledger_adds_up(pools, upstream, ended_well={seen.request_id: True})
    assert [record["attempt"] for record in records] == [1, 2]
    assert [record["state"] for record in records][1] == "ok"
    assert records[0]["state"] in ("upstream_error", "truncated")


@pytest.mark.parametrize("script", LASTING)
def test_a_request_that_is_wrong_is_sent_once(pools: RunningGateway, upstream: ScriptedUpstream, script: str) -> None:
    name = name_of(script)
    upstream.script(script, model=MODEL, times=1)

    seen = ask(pools, name)

    assert seen.status == {"status=422": 400}.get(script, int(script.removeprefix("status=")))
    assert len(upstream.attempts()) == 1
    assert_ledger_adds_up(pools, upstream, ended_well={seen.request_id: False})
    again = ask(pools, name)
    assert again.ended_well
    states = pools.sql(
        "SELECT s.state FROM keys_credentialstate s JOIN keys_credential c ON c.id = s.credential_id "
        "JOIN keys_upstream u ON u.id = c.upstream_id WHERE u.name = %s AND s.state <> 'ready'",
        name,
    )
    assert states == []


def test_a_credential_that_must_rest_is_not_called_before_its_time(
    pools: RunningGateway, upstream: ScriptedUpstream
) -> None:
    earn_a_retry(pools, upstream)
    upstream.script("status=429,retry_after=60", model=MODEL, times=1)
    assert ask(pools, "rests").ended_well
    failed = upstream.attempts()[0]["key_sha256"]
    upstream.reset()

    for _ in range(4):
        assert ask(pools, "rests").ended_well

    assert failed not in {attempt["key_sha256"] for attempt in upstream.attempts()}


def test_nothing_is_tried_again_once_the_client_has_seen_a_byte(
    pools: RunningGateway, upstream: ScriptedUpstream
) -> None:
    upstream.script("cut,frame=3", model=MODEL, times=1)

    seen = ask(pools, "once")

    assert seen.error is not None
    assert len(upstream.attempts()) == 1
    assert_ledger_adds_up(pools, upstream, ended_well={seen.request_id: False})
