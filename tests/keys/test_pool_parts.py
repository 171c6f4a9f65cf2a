"""The parts of the pool that a dispatcher alone does not show."""

from dataclasses import replace

import pytest

from keys.dispatch import Kind, Outcome
from keys.pool.board import MODELS_MAX, Board, Choice, Saturated
from keys.pool.budget import RetryBudget
from keys.pool.facts import Announced
from keys.pool.failover import ATTEMPTS_MAX
from keys.pool.health import Health, after_exhaustion, after_failure, after_success, own_rest_s
from keys.pool.load import Crew, Load
from keys.pool.score import Shared
from keys.pool.verdicts import RULES, Cause, State, Verdict
from tests.keys.pools import NOW, OK, answer, credential, credentials, pool, route, target


@pytest.mark.parametrize(
    ("cause", "rests"),
    [
        (Cause.RATE_LIMIT, [1, 2, 4, 8, 16, 32, 60, 60]),
        (Cause.SERVER_ERROR, [30, 60, 90, 120, 150, 180, 210, 240]),
        (Cause.NO_CREDIT, [1800, 3600, 7200, 14_400, 28_800, 57_600, 86_400, 86_400]),
        (Cause.OVERLOADED, [5, 10, 20, 30, 30, 30, 30, 30]),
    ],
)
def test_a_rest_grows_with_each_one_since_the_last_success(cause: Cause, rests: list[float]) -> None:
    assert [own_rest_s(RULES[cause], number) for number in range(8)] == rests


def test_a_rest_grows_for_ever_without_breaking() -> None:
    assert own_rest_s(RULES[Cause.RATE_LIMIT], 10_000) == 60


def test_attempts_under_way_when_a_rest_began_do_not_lengthen_it() -> None:
    health = Health()
    for _ in range(50):
        health = after_failure(health, Verdict(cause=Cause.RATE_LIMIT), now=NOW, jitter=0)

    assert health.until == NOW + 1


@pytest.mark.parametrize(
    ("grave", "lesser", "until"),
    [
        (Verdict(cause=Cause.NO_CREDIT), Verdict(cause=Cause.RATE_LIMIT), 1800),
        (
            Verdict(cause=Cause.NO_CREDIT),
            Verdict(cause=Cause.RATE_LIMIT, announced=Announced(retry_after_s=3600)),
            3600,
        ),
        (Verdict(cause=Cause.NO_ACCESS), Verdict(cause=Cause.RATE_LIMIT), 3600),
    ],
)
def test_what_was_under_way_never_makes_a_rest_look_better(grave: Verdict, lesser: Verdict, until: int) -> None:
    resting = after_failure(Health(), grave, now=NOW, jitter=0)

    after = after_failure(resting, lesser, now=NOW + 0.001, jitter=0)
    exhausted = after_exhaustion(resting, 30, now=NOW + 0.001, jitter=0)

    assert (after.state, after.cause, after.until) == (
        grave.rule.state,
        grave.cause,
        pytest.approx(NOW + until, abs=0.01),
    )
    assert (exhausted.state, exhausted.until) == (grave.rule.state, resting.until)


def test_jitter_only_lengthens_a_rest() -> None:
    verdict = Verdict(cause=Cause.NO_CREDIT)
    rests = [(after_failure(Health(), verdict, now=NOW, jitter=jitter).until or 0) - NOW for jitter in (0, 0.5, 0.99)]

    assert rests == sorted(rests)
    assert 1800 <= rests[0] < rests[-1] < 1800 * 1.1


def test_a_credential_that_may_not_rest_only_counts() -> None:
    health = Health()
    for _ in range(9):
        health = after_failure(health, Verdict(cause=Cause.SERVER_ERROR), now=NOW, jitter=0, may_rest=False)

    assert (health.state, health.failures, health.until) == (State.READY, 9, None)


def test_failures_of_another_kind_begin_to_count_anew() -> None:
    health = after_failure(Health(), Verdict(cause=Cause.RATE_LIMIT), now=NOW, jitter=0)

    health = after_failure(health, Verdict(cause=Cause.WRONG_KEY), now=NOW + 5, jitter=0)

    assert health.failures == 1


def test_a_success_changes_nothing_where_all_is_well() -> None:
    health = Health(changed_at=NOW)

    assert after_success(health, now=NOW + 9, sent_at=NOW) == replace(health, last_success_at=NOW + 9)


def test_an_exhausted_allowance_rests_a_minute_at_most() -> None:
    assert after_exhaustion(Health(), 9999, now=NOW, jitter=0).until == NOW + 60


def test_a_shorter_rest_does_not_cut_a_longer_one_short() -> None:
    long = after_failure(Health(), Verdict(cause=Cause.NO_CREDIT), now=NOW, jitter=0)

    assert after_exhaustion(long, 5, now=NOW, jitter=0).until == NOW + 1800


def test_a_retry_costs_what_five_calls_earn() -> None:
    budget = RetryBudget(balance=0)
    for _ in range(5):
        assert not budget.spend()
        budget.earn()

    assert budget.spend()
    assert not budget.spend()


def test_retries_are_not_saved_up_for_ever() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.earn()

    assert [budget.spend() for _ in range(25)].count(True) == 20


@pytest.mark.parametrize(("limit", "size"), [(3, 2), (10, 3), (1, 1), (7, 7), (100, 8)])
def test_the_shares_of_a_crew_add_up_to_the_limit(limit: int, size: int) -> None:
    for credential_id in range(20):
        shares = [Crew(size, index).share(limit, credential_id) for index in range(size)]
        assert sum(shares) == limit
        assert max(shares) - min(shares) <= 1


def test_a_limit_below_the_number_of_workers_starves_none() -> None:
    assert [Crew(4, index).share(1, 1) for index in range(4)] == [1, 1, 1, 1]


def test_what_others_told_counts_against_the_limits() -> None:
    limited, load = credential(1, concurrency=5, rpm=10, tpm=1000), Load()
    assert load.has_room(limited, 100)

    for told in ({"in_flight": 5}, {"sends": 10}, {"tokens": 950}):
        load.hear(**{"in_flight": 0, "sends": 0, "tokens": 0} | told)
        assert not load.has_room(limited, 100), told


def test_a_window_forgets_after_a_minute() -> None:
    load = Load()
    load.claim(100, now=NOW)
    load.release(20, now=NOW + 1)
    load.claim(50, now=NOW + 30)

    load.expire(NOW + 59.9)
    assert (load.sends, load.tokens, load.in_flight) == (2, 170, 1)
    load.expire(NOW + 60)
    assert (load.sends, load.tokens) == (1, 50)
    load.expire(NOW + 120)
    assert (load.sends, load.tokens) == (0, 0)
    assert not load.is_idle


def board_of(shared: Shared, count: int = 3) -> Board:
    board = Board(credentials(count), shared)
    board.start(NOW)
    return board


def test_a_refresh_lets_old_sends_go() -> None:
    shared = Shared()
    board = board_of(shared)
    for _ in range(3):
        shared.load(1).claim(0, now=NOW)
        shared.load(1).release(0, now=NOW)
    board.update(1, now=NOW)
    shared.load(3).claim(0, now=NOW)
    board.update(3, now=NOW)
    choice = board.choose("m", now=NOW)
    assert isinstance(choice, Choice)
    assert choice.credential.id == 2

    board.refresh(NOW + 61)

    choice = board.choose("m", now=NOW + 61)
    assert isinstance(choice, Choice)
    assert choice.credential.id == 1


def test_strangers_do_not_disturb_a_board() -> None:
    board = board_of(Shared())
    board.update(99, now=NOW)
    board.update_model(99, "m", now=NOW)

    choice = board.choose("m", now=NOW, exclude={99}, home=99, session="s")

    assert isinstance(choice, Choice)


def test_an_empty_board_is_saturated_without_end() -> None:
    saturated = Board((), Shared()).choose("m", now=NOW)

    assert isinstance(saturated, Saturated)
    assert saturated.until is None


def test_a_resting_lone_credential_is_asked_all_the_same() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(402)
    acme.request()
    acme.answers.clear()

    assert acme.request() == OK
    assert acme.calls == [1, 1]


def test_what_the_upstream_says_to_a_lone_credential_is_told_the_first_time_too() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(429, retry_after="30")

    assert [acme.request(), acme.request()] == [acme.answers[1]] * 2
    assert acme.calls == [1, 1]


def test_a_lone_credential_of_a_fallback_is_asked_when_nobody_else_can() -> None:
    acme = pool(*credentials(2), more={2: (credential(9, upstream_id=2),)})
    there = route(target(), fallbacks=(target(2),))
    acme.answers = {1: answer(402), 2: answer(402), 9: answer(402)}
    acme.request(there)
    acme.request(there)
    acme.calls.clear()

    acme.request(there)

    assert acme.calls == [9]


def test_a_request_meets_six_credentials_at_most_whatever_the_route() -> None:
    others = {number: credentials(2, upstream_id=number) for number in range(2, 9)}
    spread = {
        number: tuple(replace(entry, id=number * 10 + entry.id) for entry in entries)
        for number, entries in others.items()
    }
    acme = pool(*credentials(2), more=spread)
    acme.answers = {entry.id: answer(402) for entries in spread.values() for entry in entries}
    acme.answers |= {1: answer(402), 2: answer(402)}

    ending = acme.request(route(target(), fallbacks=tuple(target(number) for number in spread)))

    assert len(acme.calls) == ATTEMPTS_MAX
    assert ending == answer(402)


def test_failures_with_two_models_stand_for_themselves() -> None:
    acme = pool(*credentials(4), more={2: credentials(2, upstream_id=2)})
    acme.dispatcher._mirror._directory.by_upstream[2] = tuple(  # type: ignore[attr-defined]
        credential(number, upstream_id=2) for number in (11, 12, 13, 14)
    )
    slow = Outcome(kind=Kind.TIMEOUT)
    acme.answers = dict.fromkeys((1, 2, 3, 4, 11, 12, 13, 14), slow)

    acme.request(route(target(), fallbacks=(target(2),)))

    assert acme.dispatcher.health(acme.calls[0], "m").failures == 1
    assert acme.dispatcher.health(acme.calls[1], "m").failures == 1


def test_without_retries_left_the_last_word_is_the_upstreams() -> None:
    acme = pool(*credentials(2))
    acme.dispatcher._budget.balance = 0
    acme.answers = {1: answer(500), 2: answer(500)}

    assert acme.request() == answer(500)
    assert acme.calls == [1]


def test_models_that_clients_make_up_leave_nothing_behind() -> None:
    acme = pool(credential(1))
    acme.answers[1] = answer(404, "model_not_found")
    for number in range(2 * MODELS_MAX):
        acme.request(route(target(model=f"made-up-{number}")))

    known = acme.dispatcher._mirror.known
    assert not known.healths
    assert not known.records
    assert len(acme.dispatcher._mirror.board(1, NOW)._extra) <= MODELS_MAX


def test_each_worker_begins_elsewhere_among_equals() -> None:
    chosen = []
    for index in range(3):
        choice = board_of(Shared(crew=Crew(3, index)), count=6).choose("m", now=NOW)
        assert isinstance(choice, Choice)
        chosen.append(choice.credential.id)

    assert chosen == [1, 3, 5]


def test_who_begins_late_in_the_list_takes_an_earlier_one_that_is_better() -> None:
    shared = Shared(crew=Crew(3, 2))
    board = board_of(shared, count=3)
    shared.load(3).claim(0, now=NOW)
    board.update(3, now=NOW)

    choice = board.choose("m", now=NOW)

    assert isinstance(choice, Choice)
    assert choice.credential.id == 1
