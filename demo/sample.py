"""Texts out of nothing: words to stream, token counts, and values that fit a JSON schema."""

from collections.abc import Iterator
from typing import Any

#: Three letters and a blank each: one token a word by `count_tokens`.
WORDS = (
    ["the", "sea", "was", "low", "and", "the", "old", "man", "sat", "and", "ate", "his", "egg", "and", "ham", "but", "the", "big", "dog", "saw", "the", "cat", "run", "far", "out", "for", "fun", "now", "all", "who", "can", "see", "may", "say", "how", "hot", "the", "day", "was"]
)  # fmt: skip
CHARACTERS_PER_TOKEN = 4
#: How deep a schema is followed.
MAX_DEPTH = 6


def count_tokens(characters: int) -> int:
    """Count as most tokenisers come out for English: four characters a token, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def split_words(text: str) -> Iterator[str]:
    """Cut after each blank, so that the pieces joined are the text again."""
    start = 0
    while (end := text.find(" ", start)) != -1:
        yield text[start : end + 1]
        start = end + 1
    if start < len(text):
        yield text[start:]


def with_tokens(pieces: Iterator[str]) -> Iterator[tuple[str, int]]:
    """Pair each piece with its tokens; the sum is the count of the whole text."""
    characters = 0
    for piece in pieces:
        before = count_tokens(characters)
        characters += len(piece)
        yield piece, count_tokens(characters) - before


def example(schema: Any, words: list[str], depth: int = 0) -> Any:
    """Make a value that fits a JSON schema, taking texts from `words` in turn.

    Not done: `$ref`, patterns, formats and bounds.
    """
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return ""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return example(schema[union][0], words, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties") or {}
            needed = schema.get("required") or list(properties)[:1]
            return {name: example(properties.get(name, {}), words, depth + 1) for name in needed}
        case "array":
            return [example(schema.get("items", {}), words, depth + 1)] if schema.get("minItems") else []
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return words.pop(0) if words else "example"
