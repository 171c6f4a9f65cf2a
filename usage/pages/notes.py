"""What the translator had to repair or drop, in words."""

#: Faults of the answer, which the client didn't see, or not whole.
MENDED = {
    "bad_frame": "a frame of the upstream's stream could not be read and was left out",
    "continued": "the upstream stopped short of what the client allows; unless a budget had no room, it was asked to go on",
    "parallel_tool_dropped": "only the first of several parallel tool calls was kept, as the client asked",
    "tool_arguments_quoted": "a tool call's arguments came as a string and were read as what stands in it",
    "tool_arguments_spilled": "a tool call's arguments stood beside its name and were put where they belong",
    "tool_call_rejected": "what looked like a tool call named no tool of the request; it was passed on as text",
    "tool_calls_dropped": "tool calls were left out of the answer: the request offered no such tools",
    "tool_choice_ignored": "the client demanded a tool call and the model made none",
    "tool_json_brackets": "a tool call's JSON had brackets missing or too many",
    "tool_json_commas": "a tool call's JSON had commas missing or too many",
    "tool_json_escapes": "a tool call's JSON had line breaks or escapes that JSON doesn't know",
    "tool_json_invalid": "a tool call's arguments made no sense; the client got them as they were, under INVALID_JSON",
    "tool_json_loose": "a tool call's JSON had single quotes, bare words or Python's words",
    "tool_json_quotes": "a tool call's JSON had quotes in its texts that weren't escaped",
    "tool_name_mended": "a tool was named a little differently than it was offered",
    "tool_response_invented": "the model went on with results of its own making, which were dropped",
    "tool_tag_unclosed": "a tag of a tool call was not closed",
    "tool_type_mended": "an argument got the type that the tool's schema asks for",
    "tool_without_name_dropped": "a tool call without a name was left out of the answer",
    "usage_absurd": "the upstream's token counts made no sense and were replaced by an estimate",
    "usage_decreased": "the upstream's token counts went down in the middle; the largest count",
}
#: What the request lost, or got, on its way to the upstream.
ADAPTED = {
    "block_dropped": "a content block that the upstream can't take was left out of the request",
    "compaction_clip": "large tool results lost their middle: the conversation no longer fitted the model's window",
    "compaction_summary": "older messages were left out, and a summary sent in their place",
    "compaction_trim": "older messages were left out: the conversation no longer fitted the model's window",
    "media_omitted": "an image or a document was replaced by a line of text: the model takes none",
    "server_tool_dropped": "a tool that only Anthropic's servers run was left out of the request",
    "tool_emulation": "tools were described in the prompt: the model has no calls of its own",
    "tool_id_repeated": "a tool call's id came twice in the conversation; the second got a new one",
    "tool_result_missing": "a tool call without a result got a note in its place",
    "tool_result_orphaned": "a tool result without a call was sent on as text",
    "tools_refused": "the upstream says that this model takes no tools: on the upstream model's page they can be emulated in the prompt",
}
#: What else the request was, or held.
OTHER = {
    "compaction": "this request wrote a summary of older messages, for the conversation's next turns",
    "credential_in_text": "a stored credential stood in the request's text, and went to the upstream with it: it should be rotated",
    "follow_up": "this request asked the upstream to go on where the one before it stopped",
    "server_tool_use": "the upstream ran tools of its own, such as web searches; what it asks for those is not in the cost",
    "service_tier": "the upstream served this in another tier than the standard one (flex, priority or batch); the cost is the standard one's",
    "token_in_text": "a client token that may be used stood in the request's text, and went to the upstream with it: it should be rotated",
}
WORDS = dict(sorted({**MENDED, **ADAPTED, **OTHER}.items()))
_PREFIXES = {
    "clamped_": "the upstream's count was impossible and was cut: ",
    "compaction_by_": "the summary was written by request ",
    "compaction_clipped_": "tool results that were clipped: ",
    "compaction_covered_": "messages that were left out: ",
    "compaction_saved_": "input tokens that this saved, estimated: ",
}


def is_mended(note: str) -> bool:
    """Tell whether a note is about a fault in the upstream's answer."""
    return note in MENDED or note.startswith("clamped_")


def is_adapted(note: str) -> bool:
    """Tell whether a note is about what the request became for the upstream."""
    return note in ADAPTED


def in_words(note: str) -> str:
    """Explain a note; one that isn't known is written out as it is."""
    for prefix, words in _PREFIXES.items():
        if note.startswith(prefix):
            rest = note.removeprefix(prefix)
            return words + (rest if rest.startswith("req_") else rest.replace("_", " "))
    return WORDS.get(note, note.replace("_", " "))
