"""The notes that tell what was wrong with calls found in a text: short codes, each once an answer."""

__all__ = ["EMULATION", "REPAIRS"]

#: Tools were told in words.
EMULATION = "tool_emulation"
#: What was wrong, and mended or dropped.
REPAIRS = (
    "tool_arguments_quoted",
    "tool_arguments_spilled",
    "tool_call_rejected",
    "tool_choice_ignored",
    "tool_json_brackets",
    "tool_json_commas",
    "tool_json_escapes",
    "tool_json_invalid",
    "tool_json_loose",
    "tool_json_quotes",
    "tool_name_mended",
    "tool_response_invented",
    "tool_tag_unclosed",
    "tool_type_mended",
)
