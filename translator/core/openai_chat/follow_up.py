"""The request that asks a chat upstream to go on with an answer that it cut short.

An upstream that takes the beginning of an answer gets the text so far as that. Any other gets it as the assistant's turn,
and a user's turn that asks to go on. Either way all before it is as it was, so that a prompt cache keeps serving it.
"""

from collections.abc import Mapping
from typing import Any

from translator.core.switches import Profile

__all__ = ["follow_up"]

LIMITS = ("max_tokens", "max_completion_tokens")
#: Characters of the end that are repeated in the words.
TAIL = 160
ASK = """Your last answer was cut off by the length limit. It ends with:
<end>{tail}</end>
Go on with it from exactly there. Begin with the very next character, white space included; what you write is joined to \
it as it stands. Repeat nothing, comment on nothing, and write no new opening."""


def follow_up(body: Mapping[str, Any], *, text: str, limit: int | None, profile: Profile) -> dict[str, Any]:
    """Return the body of the follow-up.

    Args:
        body: What was sent to the upstream first.
        text: What the model has written since.
        limit: Output tokens that the client still allows; None for any number.
        profile: The upstream's switches.
    """
    limits = {key: min(body[key], limit) for key in LIMITS if limit is not None and key in body}
    *before, last = body["messages"]
    if last["role"] == "assistant":  # the client itself gave the beginning of the answer
        text = last["content"] + text
    else:
        before.append(last)
    keys, turns = _said(text, profile)
    return {**body, **limits, **keys, "messages": [*before, *turns]}


def _said(text: str, profile: Profile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the keys and the turns that say what is there, and that it is to go on."""
    match profile.prefill:
        case "prefix":
            return {}, [{"role": "assistant", "content": text.rstrip(), "prefix": True}]
        case "continue":
            keys = {"continue_final_message": True, "add_generation_prompt": False}
            return keys, [{"role": "assistant", "content": text.rstrip()}]
        case _:
            ask = ASK.format(tail=text[-TAIL:])
            return {}, [{"role": "assistant", "content": text}, {"role": "user", "content": ask}]
