"""The switches by which upstreams of one dialect differ, and the check of what operators set them to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

__all__ = ["NOTHING", "SWITCHES", "Profile", "ProfileError", "checked_switches", "describe_switch"]

#: No keys at all.
NOTHING: Mapping[str, Any] = MappingProxyType({})


class ProfileError(ValueError):
    """A profile, a switch or a switch's value that does not exist; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The switches of one upstream; the defaults suit an upstream of which nothing is known."""

    #: Key that carries the limit of output tokens; only this one is sent.
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: Largest limit of output tokens to ask for; null asks for what the client asked.
    max_tokens_cap: int | None = None
    #: Ask for a usage chunk at the end of a stream (`stream_options`).
    stream_usage: bool = True
    #: Forward `top_k`.
    top_k: bool = False
    #: Forward `temperature` and `top_p`.
    sampling: bool = True
    #: Forward `temperature` and `top_p` to reasoning models too.
    sampling_with_reasoning: bool = True
    #: Most stop sequences to send; the gateway cuts at the others itself. Null sends all.
    stop_max: int | None = 4
    #: Key in which thinking of earlier turns is sent back; `none` leaves it out. Responses upstreams take items, always.
    reasoning_in: Literal["none", "reasoning_content", "reasoning", "reasoning_details", "reasoning_items"] = "none"
    #: Send the key of `reasoning_in` empty on turns with tool calls and no thinking.
    reasoning_in_empty: bool = False
    #: How thinking is asked for.
    reasoning_request: Literal["none", "effort", "thinking", "openrouter", "template_kwargs"] = "none"
    #: Take a model for a reasoning one when nobody said whether it is.
    reasoning_assumed: bool = False
    #: The upstream's word for each effort; an effort without a word is left out.
    efforts: Mapping[str, str] = field(
        default_factory=lambda: {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
    )
    #: Word of effort that switches thinking off; empty sends nothing.
    effort_off: str = ""
    #: Names in `chat_template_kwargs` that are set to true or false.
    template_kwargs: tuple[str, ...] = ("enable_thinking", "thinking")
    #: Say `tool_choice: "auto"`, or leave the key out.
    tool_choice_auto: Literal["omit", "send"] = "omit"
    #: Word for "call any tool"; `ask` leaves the key out and asks in the system message.
    tool_choice_any: Literal["required", "any", "ask"] = "required"
    #: How a tool is forced; `ask` leaves the key out and asks in the system message.
    tool_choice_tool: Literal["function", "required", "ask"] = "function"
    #: Say `tool_choice: "none"`, or leave out the tools (kept where the history has calls).
    tool_choice_none: Literal["send", "drop_tools"] = "send"
    #: Knows `parallel_tool_calls`; else the gateway keeps the first call only.
    parallel_tool_calls: bool = True
    #: Forward `strict` on tools.
    strict_tools: bool = False
    #: Define tools that the history calls and the request does not offer.
    tools_of_history: bool = False
    #: Longest tool name; longer ones are shortened and restored in the answer.
    tool_name_max: int = 64
    #: Keywords taken out of tool schemas (never properties of that name).
    schema_drop: tuple[str, ...] = ("$schema",)
    #: Write what `$ref` points to in its place.
    schema_inline_refs: bool = False
    #: Keep `anyOf`, `oneOf`, `allOf`, `enum` and `not` at the top of a tool schema; else the unions' properties are merged.
    schema_top_unions: bool = False
    #: Takes images, where nobody said whether the model does.
    vision: bool = True
    #: Takes images by http(s) address; the gateway never fetches one.
    image_urls: bool = True
    #: Takes PDF files as `file` parts, where nobody said whether the model does.
    pdf: bool = False
    #: Where system turns amid the conversation go: user text in place, in place, or up to the first message.
    system_mid: Literal["user", "inline", "hoist"] = "user"
    #: Content of an assistant message that only calls tools.
    content_null: Literal["null", "empty", "omit"] = "null"
    #: Content of a tool message whose result is empty.
    empty_tool_content: str = ""
    #: What to do with user text right after tool messages; `merge` puts it into the last one.
    user_after_tool: Literal["keep", "merge"] = "keep"
    #: Tool call ids as they are, or nine letters and digits, or at most 40 characters.
    tool_id_style: Literal["keep", "mistral9", "max40"] = "keep"
    #: Keys laid over each tool call of the history.
    tool_call_extra: Mapping[str, Any] = NOTHING
    #: What a trailing assistant message becomes.
    prefill: Literal["plain", "prefix", "continue", "reject"] = "plain"
    #: How structured output is asked for; `text` asks in the system message.
    response_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    #: Keys that get a digest of the client's `metadata.user_id`.
    user_id_keys: tuple[str, ...] = ()
    #: Send a digest of the session as `prompt_cache_key`.
    prompt_cache_key: bool = False
    #: Forward `service_tier`.
    service_tier: bool = False
    #: Read `<think>` at the start of the text as thinking.
    think_tags: bool = False
    #: Take the end of a stream without a finish for a good end.
    lenient_eof: bool = False
    #: Top-level keys never sent, whatever the rest says.
    unsupported: tuple[str, ...] = ()
    #: Headers added to each call.
    headers: Mapping[str, str] = NOTHING
    #: Keys laid over the finished body.
    extra_body: Mapping[str, Any] = NOTHING
    #: Switches for models whose name (after the last `/`) begins so; the longest beginning wins.
    by_model: Mapping[str, Mapping[str, Any]] = NOTHING

    def for_model(self, name: str) -> Self:
        """Return the profile with the switches that `by_model` sets for this upstream model."""
        bare = name.rpartition("/")[2]
        beginnings = [beginning for beginning in self.by_model if bare.startswith(beginning)]
        return replace(self, **self.by_model[max(beginnings, key=len)]) if beginnings else self


def checked_switches(overrides: Any, *, where: str = "") -> dict[str, Any]:
    """Return the switches of a JSON object, as a profile takes them.

    Args:
        overrides: The object, as parsed.
        where: What to say after "switch" in errors, to tell nested objects apart.

    Raises:
        ProfileError: A switch is unknown, or a value has the wrong type.
    """
    if not isinstance(overrides, Mapping):
        message = f"profile overrides{where}: a JSON object is needed"
        raise ProfileError(message)
    return {key: _switch(key, value, where=where) for key, value in overrides.items()}


def _switch(key: str, value: Any, *, where: str) -> Any:
    if key not in SWITCHES:
        message = f"unknown profile switch{where} {key!r}"
        raise ProfileError(message)
    if key == "by_model":
        return _by_model(value)
    if not _fits(value, SWITCHES[key]):
        message = f"profile switch{where} {key!r}: {value!r} is not {describe_switch(SWITCHES[key])}"
        raise ProfileError(message)
    return tuple(value) if isinstance(value, list) else value


def _by_model(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping):
        message = "profile switch 'by_model': a JSON object is needed"
        raise ProfileError(message)
    return {model: checked_switches(switches, where=f" by_model[{model!r}]") for model, switches in value.items()}


def _fits(value: Any, hint: Any) -> bool:
    match get_origin(hint):
        case origin if origin is Literal:
            return isinstance(value, str) and value in get_args(hint)
        case origin if origin in (Union, UnionType):
            return any(_fits(value, choice) for choice in get_args(hint))
        case origin if origin is tuple:
            return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        case None if hint is int:
            return type(value) is int and value >= 0
        case None:
            return isinstance(value, hint)
        case _:
            values = get_args(hint)[1]
            return isinstance(value, Mapping) and (values is Any or all(isinstance(v, values) for v in value.values()))


def describe_switch(hint: Any) -> str:
    """Say in words what a switch takes, for errors and for the documentation."""
    match get_origin(hint):
        case origin if origin is Literal:
            return " or ".join(get_args(hint))
        case origin if origin in (Union, UnionType):
            return " or ".join(describe_switch(choice) for choice in get_args(hint))
        case origin if origin is tuple:
            return "a list of strings"
        case None:
            return {bool: "true or false", int: "a number from 0", str: "a string", NoneType: "null"}[hint]
        case _:
            return "a JSON object"


#: What each switch takes.
SWITCHES: Mapping[str, Any] = {
    name: hint for name, hint in get_type_hints(Profile).items() if name in {f.name for f in fields(Profile)}
}
