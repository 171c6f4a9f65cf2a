"""The words by which models mark calls in their text.

The form asked for is `<tool_call>`. The others are what models were trained on, and fall back to: Hermes and Qwen, Llama,
Claude's older form, DeepSeek's (with bars and underscores of full width, and what becomes of them), Kimi, MiniMax, Mistral.

Source: the chat templates of these models on their publishers' pages (read 2026-11-30).
"""

import re
from collections.abc import Iterable
from itertools import product

__all__ = ["CLOSERS", "HEADS", "INVENTED", "NOISE", "OPENERS", "PREFIX", "Marks"]

BAR, LOW_LINE = "\uff5c", "\u2581"
#: What may stand before the name of a tag.
PREFIXES = ("", "antml:", "minimax:", f"{BAR}DSML{BAR}", "|DSML|", f"{BAR}DSML{BAR} ", "|DSML| ")
PREFIX = rf"(?:antml:|minimax:|[{BAR}|]DSML[{BAR}|] ?)?"
GROUPS = ("tool_call", "tool_calls", "function_call", "function_calls")
#: DeepSeek's and Kimi's tokens: begin and end, of all calls and of one.
SECTIONS = tuple(
    f"<{bar}{words}{bar}>"
    for words in (
        *(
            line.join(words)
            for line, words in product(
                (LOW_LINE, "_", " "),
                (("tool", "calls", "begin"), ("tool", "call", "begin")),
            )
        ),
        "tool_calls_section_begin",
    )
    for bar in (BAR, "|")
)
SECTION_ENDS = tuple(token.replace("begin", "end") for token in SECTIONS)


class Marks:
    """A set of words that are looked for at one place of a text."""

    def __init__(self, words: Iterable[str]) -> None:
        """Know the words; none is the beginning of another."""
        self.words = tuple(words)
        self._pattern = re.compile("|".join(map(re.escape, self.words)))
        self._longest = max(map(len, self.words))
        self._beginnings = frozenset(word[:end] for word in self.words for end in range(1, len(word)))

    def at(self, text: str, at: int) -> str | None:
        """Return the word that stands at `at`; None when there is none."""
        found = self._pattern.match(text, at)
        return found.group() if found else None

    def may_begin(self, text: str, at: int) -> bool:
        """Tell whether the text ends within a word that begins at `at`."""
        return len(text) - at < self._longest and text[at:] in self._beginnings

    def find(self, text: str, at: int) -> int:
        """Return where the next word begins; -1 when there is none."""
        found = self._pattern.search(text, at)
        return found.start() if found else -1


#: What begins a call that has its name and its arguments in tags.
HEADS = Marks(("<function=", *(f"<{prefix}invoke name=" for prefix in PREFIXES)))
_GROUPS = (
    *(f"<{prefix}{group}>" for prefix in PREFIXES for group in GROUPS),
    *SECTIONS,
    "<|python_tag|>",
    "[TOOL_CALLS]",
)
#: What begins a place where calls stand.
OPENERS = Marks((*HEADS.words, *_GROUPS))
_CLOSERS = (
    *(f"</{prefix}{name}>" for prefix in PREFIXES for name in (*GROUPS, "function", "invoke")),
    *SECTION_ENDS,
)
CLOSERS = Marks(_CLOSERS)
#: What may stand between calls.
NOISE = Marks((*_GROUPS, *_CLOSERS, "</s>", "<|im_end|>", "<|eom_id|>", "<|eot_id|>"))
#: What only the gateway writes: the model goes on with results of its own making.
INVENTED = Marks(("<tool_response",))
