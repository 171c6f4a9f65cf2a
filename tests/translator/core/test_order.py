"""The diagram in the documentation is the table in the code."""

from pathlib import Path

from translator.core.order import ORDER, State

PAGE = Path(__file__).parents[3] / "docs" / "events.md"


def diagram() -> str:
    """Return the table as a Mermaid state diagram; failures, which may come at any time, are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.UNSTARTED.name}"]
    for state, row in ORDER.items():
        for kind, following in row.items():
            if kind.__name__ != "StreamFailed":
                lines.append(f"    {state.name} --> {following.name}: {kind.__name__}")
    return "\n".join([*lines, f"    {State.ENDED.name} --> [*]"])


def test_the_diagram_is_drawn_from_the_table():
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text()


def test_a_failure_may_come_at_any_time_until_the_stop_reason_is_out():
    failing = {state for state, row in ORDER.items() if any(kind.__name__ == "StreamFailed" for kind in row)}

    assert set(State) - failing == {State.STOPPED, State.ENDED}
