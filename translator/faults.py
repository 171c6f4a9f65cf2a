"""What a fault below HTTP means: for the record, for the pool, and for the client."""

from keys.pool.facts import Kind
from translator.core.errors import ClientError
from translator.core.openai_chat.errors import connection_error, timeout_error
from translator.upstream import UpstreamBroke, UpstreamFault, UpstreamRefused, UpstreamTimedOut, UpstreamUnreadable
from usage.states import State


def judge_fault(fault: UpstreamFault) -> tuple[State, Kind, ClientError]:
    """Return the record's state, the pool's view and the client's words for a fault below HTTP."""
    match fault:
        case UpstreamTimedOut():
            return State.TIMEOUT, Kind.TIMEOUT, timeout_error(fault.after_s)
        case UpstreamUnreadable():
            return State.UPSTREAM_ERROR, Kind.BAD_ANSWER, connection_error("unreadable")
        case UpstreamBroke():
            return State.TRUNCATED, Kind.NETWORK, connection_error("reset")
        case UpstreamRefused():
            return State.REFUSED, Kind.NETWORK, connection_error("refused_address")
        case _:
            return State.UPSTREAM_ERROR, Kind.NETWORK, connection_error("connect")
