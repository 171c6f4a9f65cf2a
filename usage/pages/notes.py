"""What the translator had to repair or drop, in words."""

WORDS = {
    "bad_frame": "a frame of the upstream's stream could not be read and was left out",
    "block_dropped": "a content block that the upstream can't take was left out of the request",
    "compaction": "this request wrote a summary of older messages, for the conversation's next turns",
    "compaction_clip": "large tool results lost their middle: the conversation no longer fitted the model's window",
    "compaction_summary": "older messages were left out, and a summary sent in their place",
    "compaction_trim": "older messages were left out: the conversation no longer fitted the model's window",
    "continued": "the upstream stopped early and was asked to go on",
    "media_omitted": "an image or a document was replaced by a line of text: the model takes none",
    "parallel_tool_dropped": "only the first of several parallel tool calls was kept, as the client asked",
    "server_tool_dropped": "a tool that only Anthropic's servers run was left out of the request",
    "tool_calls_dropped": "tool calls were left out of the answer: the request offered no such tools",
    "tool_emulation": "tools were described in the prompt: the model has no calls of its own",
    "tool_id_repeated": "a tool call's id came twice in the conversation; the second got a new one",
    "tool_result_missing": "a tool call without a result got a note in its place",
    "tool_result_orphaned": "a tool result without a call was sent on as text",
    "tool_without_name_dropped": "a tool call without a name was left out of the answer",
    "usage_absurd": "the upstream's token counts made no sense and were replaced by an estimate",
    "usage_decreased": "the upstream's token counts went down in the middle; the largest count",
}
_PREFIXES = {
    "clamped_": "the upstream's count was impossible and was cut: ",
    "compaction_by_": "the summary was written by request ",
    "compaction_clipped_": "tool results that were clipped: ",
    "compaction_covered_": "messages that were left out: ",
    "compaction_saved_": "input tokens that this saved, estimated: ",
}


def in_words(note: str) -> str:
    """Explain a note; one that isn't known is written out as it is."""
    for prefix, words in _PREFIXES.items():
        if note.startswith(prefix):
            rest = note.removeprefix(prefix)
            return words + (rest if rest.startswith("req_") else rest.replace("_", " "))
    return WORDS.get(note, note.replace("_", " "))
