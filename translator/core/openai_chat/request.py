"""Requests to chat/completions upstreams: a `MessagesRequest` in, the body to send out.

Fields of the Messages API that chat upstreams have no word for are dropped, and so is every field not known here: an
upstream is only ever sent keys that this package names, or that its profile adds.

Source: `openai` 3.57.0 `types/chat/completion_create_params.py` and the upstreams' pages named in `profiles`.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any, assert_never

import orjson

from translator.core.answer import AnswerContext
from translator.core.anthropic.request import MessagesRequest, ThinkingMode
from translator.core.emulation.prompt import describe_tools, remind
from translator.core.emulation.turns import told_turns
from translator.core.errors import InvalidRequest, UnsupportedFeature
from translator.core.estimate import estimate_input_tokens
from translator.core.facts import ModelFacts
from translator.core.openai_chat.blocks import Reader
from translator.core.openai_chat.history import History
from translator.core.openai_chat.schemas import clean_keywords, is_closed
from translator.core.openai_chat.thinking import reasoning_keys
from translator.core.openai_chat.tools import OfferedTools, offer_tools
from translator.core.openai_chat.turns import read_conversation
from translator.core.rendered import RenderedRequest
from translator.core.switches import Profile

__all__ = ["render_request"]

SERVICE_TIERS = {"auto": "auto", "standard_only": "default"}

#: Fields that ask for what only Anthropic's servers do, and whose loss would ruin the conversation.
REFUSED = {
    "compaction": "not supported by this gateway",
    "mcp_servers": "the MCP connector is not supported by this gateway",
}

#: Fewer output tokens than these are not worth squeezing into the window.
LEAST_ROOM = 1_024

NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
ASK_FOR_JSON = "Answer with one JSON object and nothing else. It must match this JSON schema:\n"


def render_request(
    request: MessagesRequest, *, profile: Profile, model: ModelFacts, input_estimate: int | None = None
) -> RenderedRequest:
    """Return what to send to a chat upstream, and what its answer must be read with.

    Args:
        request: The client's request; it is not changed.
        profile: The upstream's switches, before those of the model.
        model: The upstream model.
        input_estimate: Input tokens, if they have been estimated before; None estimates them now.

    Raises:
        InvalidRequest: Something in the request cannot be said to this upstream, nor left out with good conscience.
    """
    _refuse(request)
    request = without_nul(request) if request.has_nul else request
    profile = profile.for_model(model.name)
    if model.tools == "emulated" and request.tools:
        # An upstream that is held to a format could write no call into its text.
        profile = replace(profile, response_format="text")
    tools = describe_tools(request, profile) if model.tools == "emulated" else offer_tools(request, profile)
    reader = Reader.of(profile, model)
    conversation = read_conversation(request.messages, reader=reader, system_mid=profile.system_mid)
    if model.tools == "emulated":
        conversation.turns = told_turns(conversation.turns, reader.notes)
    history = History(profile=profile, thinking_is_off=request.thinking.mode is ThinkingMode.OFF)
    history.write(conversation.turns)
    if not history.messages:
        raise InvalidRequest(path="messages", reason="at least one message with content is required")
    format_keys, format_ask = _response_format(request, profile)
    is_reminded = bool(tools.reminder) and remind(history.messages, tools.reminder)
    asks = (
        tools.manual,
        *request.system,
        *conversation.hoisted,
        tools.ask,
        format_ask,
        "" if is_reminded else tools.reminder,
    )
    if input_estimate is None:
        input_estimate = estimate_input_tokens(request)
    max_tokens = _limit(request, profile, model, input_estimate)
    body: dict[str, Any] = {
        "model": model.name,
        **({} if max_tokens is None else {profile.max_tokens_key: max_tokens}),
        **_streaming(request, profile),
        **_sampling(request, profile, model),
        **reasoning_keys(request.thinking, profile=profile, model=model, is_forced=tools.is_forced),
        **tools.keys,
        **format_keys,
        **_identity(request, profile),
        **_prefill(history.messages, profile),
        "messages": [*_system_message(asks), *history.messages],
        **profile.extra_body,
    }
    return RenderedRequest(
        body={key: value for key, value in body.items() if key not in profile.unsupported},
        answer=replace(
            _answer_context(request, tools, history, max_tokens=max_tokens, input_estimate=input_estimate),
            message_limit=_message_limit(request, model, input_estimate),
        ),
        notes=tuple(dict.fromkeys((*tools.notes, *reader.notes, *history.notes))),
    )


def _refuse(request: MessagesRequest) -> None:
    for name, reason in REFUSED.items():
        if request.body.get(name):
            raise UnsupportedFeature(path=name, reason=reason)


def without_nul(request: MessagesRequest) -> MessagesRequest:
    """Return the request without U+0000 in what is sent on."""
    return replace(
        request,
        system=tuple(_stripped(list(request.system))),
        messages=_stripped(request.messages),
        tools=_stripped(request.tools),
    )


def _stripped(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [_stripped(item) for item in value]
        case dict():
            return {key.replace("\0", ""): _stripped(item) for key, item in value.items()}
        case _:
            return value


def _system_message(texts: Iterable[str]) -> list[dict[str, Any]]:
    system = "\n\n".join(text for text in texts if text)
    return [{"role": "system", "content": system}] if system else []


def _limit(request: MessagesRequest, profile: Profile, model: ModelFacts, input_estimate: int) -> int | None:
    """Return the limit of output tokens to ask for.

    Clients ask for what Claude could say. Where the model's window is known, what the input leaves of it is the most
    to ask for; where it leaves next to nothing, the upstream shall say so, as its words make clients compact.
    """
    room = (model.context_window or 0) - input_estimate
    limits = (request.max_tokens, profile.max_tokens_cap, model.max_output_tokens, room if room >= LEAST_ROOM else None)
    return min((limit for limit in limits if limit is not None), default=None)


def _message_limit(request: MessagesRequest, model: ModelFacts, input_estimate: int) -> int | None:
    """Return the output tokens that the whole message may have, in however many calls it is made."""
    window = model.context_window
    limits = (request.max_tokens, max(0, window - input_estimate) if window else None)
    return min((limit for limit in limits if limit is not None), default=None)


def _streaming(request: MessagesRequest, profile: Profile) -> dict[str, Any]:
    if not request.stream:
        return {}
    return {"stream": True, **({"stream_options": {"include_usage": True}} if profile.stream_usage else {})}


def _sampling(request: MessagesRequest, profile: Profile, model: ModelFacts) -> dict[str, Any]:
    asked = request.body
    keys = ("temperature", "top_p") if _takes_sampling(profile, model) else ()
    sent = {key: asked[key] for key in (*keys, *(("top_k",) if profile.top_k else ())) if asked.get(key) is not None}
    if stop := request.stop_sequences[: profile.stop_max]:
        sent["stop"] = list(stop)
    return sent


def _takes_sampling(profile: Profile, model: ModelFacts) -> bool:
    return profile.sampling and (profile.sampling_with_reasoning or not model.reasoning)


def _response_format(request: MessagesRequest, profile: Profile) -> tuple[dict[str, Any], str]:
    """Return the key that asks for structured output, and what the system message must say beside it."""
    schema = request.output_schema
    if schema is None:
        return {}, ""
    match profile.response_format:
        case "json_schema":
            cleaned = clean_keywords(schema, profile)
            # OpenAI refuses a strict schema that leaves a property out of `required`; clients' schemas may.
            named = {"name": "output", "schema": cleaned, "strict": is_closed(cleaned)}
            return {"response_format": {"type": "json_schema", "json_schema": named}}, ""
        case "json_object":
            return {"response_format": {"type": "json_object"}}, ASK_FOR_JSON + orjson.dumps(schema).decode()
        case "text":
            return {}, ASK_FOR_JSON + orjson.dumps(schema).decode()
        case _:
            assert_never(profile.response_format)


def _identity(request: MessagesRequest, profile: Profile) -> dict[str, str]:
    """Who asks, as digests: upstreams group by them and learn no name."""
    keys: dict[str, str] = {}
    if request.user_id:
        keys |= dict.fromkeys(profile.user_id_keys, _digest(request.user_id))
    if profile.prompt_cache_key and (session := request.session_id or request.user_id):
        keys["prompt_cache_key"] = _digest(session)
    tier = request.body.get("service_tier")
    if profile.service_tier and isinstance(tier, str) and tier in SERVICE_TIERS:
        keys["service_tier"] = SERVICE_TIERS[tier]
    return keys


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _prefill(messages: list[dict[str, Any]], profile: Profile) -> dict[str, Any]:
    """Mark a trailing assistant message as the beginning of the answer; return the keys that go with it."""
    last = messages[-1]
    if last["role"] != "assistant":
        return {}
    if profile.prefill == "reject":
        raise UnsupportedFeature(path="", reason=NO_PREFILL)
    last["content"] = last["content"].rstrip()
    if profile.prefill == "prefix":
        last["prefix"] = True
    if profile.prefill == "continue":
        return {"continue_final_message": True, "add_generation_prompt": False}
    return {}


def _answer_context(
    request: MessagesRequest, tools: OfferedTools, history: History, *, max_tokens: int | None, input_estimate: int
) -> AnswerContext:
    return AnswerContext(
        model=request.model,
        tools=tools.names,
        tool_names=tools.tool_names,
        forced_tool=tools.forced,
        stop_sequences=request.stop_sequences,
        max_tokens=max_tokens,
        show_thinking=request.thinking.is_on,
        omit_thinking_text=request.thinking.omit_text,
        parallel_tools=not (request.tool_choice or {}).get("disable_parallel_tool_use"),
        input_estimate=input_estimate,
        history_tool_ids=frozenset(history.ids),
        emulated_tools=tools.schemas,
        must_call=tools.must_call,
    )
