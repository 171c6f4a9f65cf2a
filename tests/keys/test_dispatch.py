"""What a worker does with its pools: input are answers and time, output are the credentials called."""

from collections import Counter

import pytest

from keys.dispatch import Attempt, Kind, Outcome, Reason, Refusal
from keys.pool.load import Crew
from keys.pool.verdicts import Cause, State
from tests.keys.pools import NOW, OK, Pool, answer, credential, credentials, pool, route, target


def test_the_least_loaded_credential_serves() -> None:
    acme = pool(*credentials(3))

    for _ in range(6):
        acme.hold()

    assert Counter(acme.calls) == {1: 2, 2: 2, 3: 2}


def test_a_released_claim_is_taken_again() -> None:
    acme = pool(*credentials(2))
    first, _ = acme.hold(), acme.hold()

    first.release(OK)
    first.release(OK)  # only the first counts

    assert acme.dispatcher.in_flight(1) == 0
    acme.hold()
    assert acme.calls == [1, 2, 1]


def test_calls_one_by_one_go_round() -> None:
    acme = pool(*credentials(3))

    for _ in range(9):
        acme.request()

    assert Counter(acme.calls) == {1: 3, 2: 3, 3: 3}


def test_a_heavier_credential_takes_more() -> None:
    acme = pool(credential(1, weight=3), credential(2))

    for _ in range(8):
        acme.hold()

    assert Counter(acme.calls) == {1: 6, 2: 2}


def test_a_lower_priority_serves_only_when_the_higher_can_not() -> None:
    acme = pool(credential(1, priority=5), credential(2, priority=0, concurrency=2))

    for _ in range(3):
        acme.hold()

    assert acme.calls == [2, 2, 1]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (credential(1, enabled=False), "disabled"),
        (credential(1, defect="undecryptable"), "undecryptable"),
        (credential(1, defect="no_secret"), "no_secret"),
        (credential(1, draining=True), "draining"),
    ],
)
def test_a_credential_that_may_not_be_used_is_never_called(entry, reason: str) -> None:
    acme = pool(entry, credential(2))
    claim = acme.hold()

    assert acme.calls == [2]
    assert claim.attempt.decision["passed_over"] == {reason: {"count": 1, "ids": [1]}}

    alone = pool(entry).request()
    assert alone == Refusal(reason=Reason.NO_CREDENTIAL, retry_after_s=None)


def test_a_429_rests_its_credential_for_exactly_the_time_announced() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(429, retry_after="7")

    assert acme.request() == OK
    assert acme.calls == [1, 2]

    acme.answers.clear()
    acme.clock.time = NOW + 6.99
    for _ in range(5):
        acme.request()
    assert acme.calls == [1, 2, 2, 2, 2, 2, 2]

    acme.clock.time = NOW + 7.71  # at most a tenth later
    acme.request()
    assert acme.calls[-1] == 1


def test_all_cooling_is_refused_at_once_with_the_earliest_time() -> None:
    acme = pool(*credentials(2))
    acme.answers = {1: answer(429, retry_after="30"), 2: answer(429, retry_after="7")}
    acme.request()
    calls = len(acme.calls)

    refusal = acme.request()

    assert len(acme.calls) == calls
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.status) == (Reason.RATE_LIMITED, 429)
    assert refusal.retry_after_s == pytest.approx(7, abs=0.8)


def test_the_last_429_is_answered_with_the_earliest_time() -> None:
    acme = pool(*credentials(3))
    acme.answers = {1: answer(429, retry_after="30"), 2: answer(429, retry_after="40"), 3: OK}

    refusal = acme.request()

    assert isinstance(refusal, Refusal)
    assert (refusal.status, acme.calls) == (429, [1, 2])


def test_a_wrong_key_is_quarantined_the_second_time_and_comes_back_by_a_probe() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(401)
    acme.request()
    acme.clock.time += 6
    acme.request()

    assert acme.dispatcher.health(1).state is State.QUARANTINED
    assert acme.calls == [1, 2, 1, 2]

    acme.answers.clear()
    acme.clock.time += 4000
    claims = [acme.hold() for _ in range(3)]
    assert acme.calls[4:] == [1, 2, 2]  # one attempt alone is a probe

    claims[0].release(OK)
    assert acme.dispatcher.health(1).state is State.READY


def test_a_probe_that_succeeds_restores_before_its_answer_ends() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(402)
    acme.request()
    acme.clock.time += 2000
    claim = acme.hold()

    claim.answered()

    assert acme.dispatcher.health(1).state is State.READY


def test_a_probe_that_fails_rests_twice_as_long() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(402)
    acme.request()
    acme.clock.time += 2000

    acme.request()

    health = acme.dispatcher.health(1)
    assert health.until is not None
    assert health.until - acme.clock.time == pytest.approx(3600, rel=0.11)


def test_a_probe_whose_client_leaves_proves_nothing_and_frees_the_place() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(402)
    acme.request()
    acme.clock.time += 2000

    acme.hold().release(Outcome(kind=Kind.CLIENT_GONE))

    assert acme.dispatcher.health(1).state is State.QUARANTINED
    assert acme.hold().attempt.is_probe


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_the_clients_own_fault_is_answered_and_touches_nothing(status: int) -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(status)

    assert acme.request() == answer(status)
    assert acme.calls == [1]
    assert acme.dispatcher.health(1).failures == 0


def test_nothing_is_tried_again_once_the_client_has_a_byte() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = Outcome(kind=Kind.HTTP_ERROR, status=500, is_sent=True)

    acme.request()

    assert acme.calls == [1]


def test_a_credential_that_fails_alone_is_ejected_after_five() -> None:
    acme = pool(*credentials(4))
    acme.answers[1] = answer(500)
    for _ in range(90):
        acme.request()
        acme.clock.time += 1

    assert acme.calls.count(1) == 6  # five, and a probe after thirty seconds
    assert acme.dispatcher.health(1, "m").state is State.EJECTED
    assert acme.dispatcher.health(1).state is State.READY  # other models may use it
    assert {acme.dispatcher.health(n, "m").failures for n in (2, 3, 4)} == {0}


def test_one_success_forgives_all_failures() -> None:
    acme = pool(*credentials(3))
    acme.answers[1] = answer(500)
    for _ in range(12):
        acme.request()
        acme.clock.time += 1
    assert acme.dispatcher.health(1, "m").failures > 0

    acme.answers.clear()
    for _ in range(8):
        acme.hold().release(OK)
        acme.clock.time += 40

    assert acme.dispatcher.health(1, "m").failures == 0


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_a_poison_prompt_ejects_no_credential_and_meets_two_at_most(count: int) -> None:
    acme = pool(*credentials(count))
    acme.answers = {number: answer(500) for number in range(1, count + 1)}
    for _ in range(30):
        before = len(acme.calls)
        acme.request(session_id="one", estimate_tokens=1234)
        assert len(acme.calls) - before <= 2
        acme.clock.time += 1

    assert all(acme.dispatcher.health(n, "m").state is State.READY for n in range(1, count + 1))
    acme.answers.clear()
    assert acme.request(session_id="two", estimate_tokens=99) == OK


def test_an_upstream_that_always_fails_is_called_seldom_and_heals_by_itself() -> None:
    acme = pool(*credentials(6))
    acme.answers = {number: answer(500) for number in range(1, 7)}
    for number in range(200):
        acme.request(session_id=f"s{number}", estimate_tokens=number)
        acme.clock.time += 0.2

    assert len(acme.calls) <= 1.25 * 200
    healed_at, acme.calls = acme.clock.time, []
    acme.answers.clear()
    while len(set(acme.calls)) < 6:
        acme.request()
        acme.clock.time += 0.2
    assert acme.clock.time - healed_at <= 60


def test_retries_stay_within_a_fifth_of_the_calls() -> None:
    acme = pool(*credentials(400))
    acme.answers = {number: answer(429, retry_after="600") for number in range(1, 401)}
    # Successes in between, so that it isn't the account that is limited.
    for number in range(1, 401, 2):
        acme.answers[number] = OK
    for _ in range(100):
        acme.request()

    assert len(acme.calls) <= 125


def test_at_most_half_of_a_pool_is_ejected() -> None:
    acme = pool(*credentials(4))
    acme.answers = {number: answer(500) for number in (1, 2, 3)}
    for _ in range(100):
        acme.request()
        acme.clock.time += 0.1

    ejected = [n for n in range(1, 5) if acme.dispatcher.health(n, "m").state is State.EJECTED]
    assert len(ejected) <= 2


def test_no_access_to_a_model_is_a_fact_about_key_and_model() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = answer(403, "no access to model m")

    assert acme.request() == OK
    acme.answers.clear()
    for _ in range(3):
        acme.request(route(target(model="m")))
    assert acme.calls == [1, 2, 2, 2, 2]

    acme.request(route(target(model="other")))
    assert acme.calls[-1] == 1


def test_a_model_that_nobody_knows_stays_the_clients_matter() -> None:
    acme = pool(*credentials(2))
    unknown = answer(404, "model_not_found")
    acme.answers = {1: unknown, 2: unknown}

    for _ in range(3):
        assert acme.request() == unknown

    assert acme.dispatcher.health(1, "m").state is State.READY


def test_429s_on_three_credentials_pause_the_whole_upstream() -> None:
    acme = pool(*credentials(6))
    acme.answers = {number: answer(429, retry_after="20") for number in range(1, 7)}
    acme.request()
    acme.request()
    calls = len(acme.calls)

    refusal = acme.request()

    assert len(acme.calls) == calls  # 5 and 6 never get their 429
    assert isinstance(refusal, Refusal)
    assert refusal.status == 429
    assert refusal.retry_after_s == pytest.approx(20, rel=0.11)


def test_a_quota_of_one_model_leaves_the_credential_to_the_others() -> None:
    acme = pool(credential(1))
    other = route(target(model="other"))
    acme.answers[1] = answer(429, retry_after="43200")
    acme.request(asks_resting=False)

    acme.answers[1] = OK

    assert isinstance(acme.request(asks_resting=False), Refusal)
    assert acme.request(other, asks_resting=False) is OK
    acme.clock.time += 3600 * 1.2
    assert acme.request(asks_resting=False) is OK


def test_a_rate_limit_of_the_minute_is_the_credentials_whatever_the_model() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(429, retry_after="60")
    acme.request(asks_resting=False)

    assert isinstance(acme.request(route(target(model="other")), asks_resting=False), Refusal)


def test_quotas_of_several_credentials_do_not_pause_the_upstream() -> None:
    acme = pool(*credentials(9))
    acme.answers = {number: answer(429, retry_after="43200") for number in range(1, 7)}

    for _ in range(9):
        last = acme.request()

    assert last is OK
    assert sorted(acme.calls[:6]) == [1, 2, 3, 4, 5, 6]


def test_a_429_that_asks_for_no_wait_rests_all_the_same() -> None:
    acme = pool(*credentials(2))
    acme.answers = {number: answer(429, retry_after="0") for number in (1, 2)}

    for _ in range(20):
        refusal = acme.request()

    assert isinstance(refusal, Refusal)
    assert acme.calls == [1, 2]


def test_429s_with_successes_in_between_are_the_credentials_own() -> None:
    acme = pool(*credentials(8))
    acme.answers = {number: answer(429, retry_after="20") for number in (1, 3, 5)}
    for _ in range(5):
        acme.request()
        acme.clock.time += 1

    assert acme.request() == OK


def test_an_overloaded_model_rests_for_all_credentials_and_other_models_go_on() -> None:
    acme = pool(*credentials(3))
    acme.answers = {number: answer(529) for number in (1, 2, 3)}
    for number in range(5):
        acme.request(session_id=str(number), estimate_tokens=number)

    refusal = acme.request()
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.status) == (Reason.SATURATED, 529)

    acme.answers.clear()
    assert acme.request(route(target(model="other"))) == OK


def test_a_slow_model_goes_to_the_fallback_not_to_the_next_credential() -> None:
    acme = pool(*credentials(3), more={2: (credential(9, upstream_id=2),)})
    slow = Outcome(kind=Kind.TIMEOUT)
    acme.answers = dict.fromkeys((1, 2, 3), slow)

    assert acme.request() == slow
    assert acme.calls == [1]
    assert acme.request(route(target(), fallbacks=(target(2),))) == OK
    assert acme.calls == [1, 2, 9]


def test_a_full_pool_goes_to_the_fallback_without_a_failed_call() -> None:
    acme = pool(credential(1, concurrency=1), more={2: (credential(9, upstream_id=2),)})
    there = route(target(), fallbacks=(target(2),))

    acme.hold(there)
    acme.hold(there)

    assert acme.calls == [1, 9]


def test_targets_that_share_get_calls_by_weight() -> None:
    acme = pool(credential(1), more={2: (credential(2, upstream_id=2),)})
    both = route(target(1, weight=3), target(2, weight=1))

    for _ in range(400):
        acme.request(both)

    assert 240 < acme.calls.count(1) < 360


def test_requests_per_minute_hold() -> None:
    acme = pool(credential(1, rpm=5), credential(2, rpm=5))
    answers = [acme.request() for _ in range(12)]

    assert Counter(acme.calls) == {1: 5, 2: 5}
    refusal = answers[-1]
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after_s == pytest.approx(60, abs=1)

    acme.clock.time += 61
    assert acme.request() == OK


def test_tokens_per_minute_hold_by_estimate_then_by_fact() -> None:
    acme = pool(credential(1, tpm=1000))
    acme.answers[1] = Outcome(kind=Kind.OK, tokens=900)

    assert isinstance(acme.request(estimate_tokens=100), Outcome)
    assert isinstance(acme.request(estimate_tokens=200), Refusal)
    assert isinstance(acme.request(estimate_tokens=50), Outcome)


def test_a_request_larger_than_the_whole_allowance_goes_when_nothing_else_runs() -> None:
    acme = pool(credential(1, tpm=1000))

    assert acme.request(estimate_tokens=5000) == OK


def test_a_used_up_allowance_rests_the_credential_before_it_fails() -> None:
    acme = pool(*credentials(2))
    acme.answers[1] = Outcome(
        kind=Kind.OK, headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "9s"}
    )

    for _ in range(4):
        acme.request()

    assert acme.calls == [1, 2, 2, 2]
    assert acme.dispatcher.health(1).cause is Cause.RATE_LIMIT


def test_a_session_stays_where_its_cache_is_warm() -> None:
    acme = pool(*credentials(5))
    home = acme.hold(session_id="s").attempt.credential.id
    for _ in range(2):
        acme.hold(session_id="s")

    assert set(acme.calls) == {home}


def test_a_session_leaves_when_waiting_costs_more_and_when_its_home_rests() -> None:
    acme = pool(*credentials(5))
    first = acme.hold(session_id="s")
    for _ in range(6):
        acme.hold(session_id="s")
    assert len(set(acme.calls)) > 1

    acme = pool(*credentials(5))
    first = acme.hold(session_id="s")
    first.release(answer(429, retry_after="9"))
    assert acme.hold(session_id="s").attempt.credential.id != first.attempt.credential.id


def test_a_new_session_draws_the_same_lot_in_every_worker() -> None:
    for name in map(str, range(20)):
        one, two = (pool(*credentials(7)).hold(session_id=name).attempt.credential.id for _ in range(2))
        assert one == two


def test_sessions_spread_over_the_pool() -> None:
    acme = pool(*credentials(300))
    for number in range(300):
        acme.hold(session_id=f"session {number}")

    assert set(Counter(acme.calls).values()) == {1}


def test_draining_keeps_its_sessions_and_takes_no_new_ones() -> None:
    acme = pool(*credentials(2))
    home = acme.hold(session_id="s").attempt.credential.id
    shelf = acme.dispatcher._mirror._directory
    shelf.by_upstream[1] = tuple(credential(n, draining=n == home) for n in (1, 2))  # type: ignore[attr-defined]

    acme.hold(session_id="s")
    for number in range(4):
        acme.hold(session_id=f"new {number}")

    assert acme.calls == [home, home] + [3 - home] * 4


def test_a_late_success_does_not_lift_a_younger_rest() -> None:
    acme = pool(*credentials(2))
    old = acme.hold()
    acme.clock.time += 1
    acme.calls.clear()
    acme.answers = {2: answer(429, retry_after="60"), 1: answer(429, retry_after="60")}
    acme.request()
    assert acme.dispatcher.health(1).state is State.COOLING

    old.release(OK)

    assert acme.dispatcher.health(1).state is State.COOLING


def test_a_decision_says_why_this_one_and_why_no_other() -> None:
    acme = pool(credential(1, enabled=False), *(credential(n) for n in range(2, 12)))
    acme.hold()

    decision = acme.hold().attempt.decision

    assert decision["chosen"] == 3
    assert decision["why"] == "lowest"
    assert decision["pool"] == 11
    assert decision["passed_over"] == {"disabled": {"count": 1, "ids": [1]}}
    assert [place[0] for place in decision["closest"]] == [3, 4, 5, 6, 7]
    assert decision["terms"] == {}
    assert acme.hold().attempt.decision["closest"][0] == [4, 0.0]


def test_two_hundred_streams_on_three_hundred_credentials_are_even() -> None:
    acme = pool(*credentials(300))

    claims = [acme.hold() for _ in range(200)]
    assert max(Counter(acme.calls).values()) == 1

    for _ in range(1000):
        claims.pop(0).release(OK)
        claims.append(acme.hold())
    in_flight = [acme.dispatcher.in_flight(n) for n in range(1, 301)]
    assert sum(in_flight) == 200
    assert max(in_flight) == 1


def test_a_request_that_waited_earns_nothing_and_pays_for_being_sent_again() -> None:
    acme = pool(*credentials(2))
    acme.dispatcher._budget.balance = 1.0

    assert acme.request(waited_after=0) == OK  # it was never sent
    assert acme.dispatcher._budget.balance == 1.0
    assert acme.request(waited_after=1) == OK
    assert acme.dispatcher._budget.balance == 0.0

    assert acme.request(waited_after=1) == Refusal(reason=Reason.SATURATED, retry_after_s=None)
    assert len(acme.calls) == 2


def test_a_request_that_may_wait_leaves_the_only_credential_its_rest() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(429, retry_after="7")
    acme.request()

    refusal = acme.request(asks_resting=False)

    assert isinstance(refusal, Refusal)
    assert refusal.retry_after_s == pytest.approx(7, abs=0.8)
    assert acme.calls == [1]


def give_back(acme: Pool, attempt: Attempt, *, wait_s: float, tokens: int = 0) -> Outcome:
    acme.dispatcher.claim(attempt).give_back(wait_s=wait_s, tokens=tokens)
    return Outcome(kind=Kind.FULL)


def test_what_is_full_for_all_workers_together_is_passed_over_and_counts_as_no_try() -> None:
    acme = pool(*credentials(4, rpm=10))
    attempts = acme.dispatcher.attempts(route())
    attempt = next(attempts)
    for _ in range(3):
        attempt = attempts.send(give_back(acme, attempt, wait_s=20))

    assert (attempt.credential.id, attempt.number) == (4, 1)
    assert acme.dispatcher._budget.balance == pytest.approx(3.2)
    assert [acme.dispatcher.in_flight(number) for number in range(1, 5)] == [0, 0, 0, 0]

    with pytest.raises(StopIteration) as end:
        attempts.send(give_back(acme, attempt, wait_s=9))
    assert end.value.value == Refusal(reason=Reason.RATE_LIMITED, retry_after_s=pytest.approx(9))

    acme.clock.time += 9.1
    assert acme.request() == OK
    assert acme.calls == [4]


def test_a_credential_too_full_for_many_tokens_still_serves_few() -> None:
    acme = pool(credential(1, tpm=1000))
    attempts = acme.dispatcher.attempts(route(), estimate_tokens=500)
    give_back(acme, next(attempts), wait_s=20, tokens=500)
    attempts.close()

    assert isinstance(acme.request(estimate_tokens=600), Refusal)
    assert acme.request(estimate_tokens=100) == OK


def test_where_all_workers_are_counted_together_each_may_use_a_limit_up() -> None:
    acme = pool(credential(1, rpm=6))
    acme.dispatcher._mirror.known.crew = Crew(size=3, index=1)
    assert [isinstance(acme.request(), Outcome) for _ in range(3)] == [True, True, False]

    acme.dispatcher.count_elsewhere(True)
    acme.clock.time += 61
    assert [isinstance(acme.request(), Outcome) for _ in range(7)] == [True] * 6 + [False]
