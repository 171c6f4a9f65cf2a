from translator.strangers import ADDRESSES_MAX, FAILURES_MAX, WINDOW_S, Strangers


def test_some_failures_are_a_typing_mistake():
    strangers = Strangers()

    assert [strangers.note("10.0.0.1", 0.0) for _ in range(FAILURES_MAX)] == [0.0] * FAILURES_MAX


def test_more_must_wait_for_the_window_to_end():
    strangers = Strangers()
    for _ in range(FAILURES_MAX):
        strangers.note("10.0.0.1", 0.0)

    assert strangers.note("10.0.0.1", 20.0) == WINDOW_S - 20
    assert strangers.note("10.0.0.2", 20.0) == 0.0
    assert strangers.note("10.0.0.1", WINDOW_S) == 0.0


def test_memory_is_bounded():
    strangers = Strangers()
    for number in range(ADDRESSES_MAX + 100):
        strangers.note(str(number), 0.0)

    assert len(strangers._counts) == ADDRESSES_MAX
