"""A conversation with the Messages API through an old `anthropic` SDK; prints what it saw as JSON.

Run by tests/e2e/test_other_sdks.py in an environment of its own: `python talk.py BASE_URL TOKEN`.
"""

import json
import sys
from typing import Any

import anthropic

WEATHER: Any = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def main(base_url: str, token: str) -> None:
    client: Any = anthropic.Anthropic(base_url=base_url, api_key=token, max_retries=0)
    history: list[Any] = [{"role": "user", "content": "Use get_weather for Paris"}]
    call = converse(client, history).content[0]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"}
    history += [{"role": "assistant", "content": [call.model_dump()]}, {"role": "user", "content": [result]}]
    whole = client.messages.create(model="demo", max_tokens=300, temperature=0.5, messages=[hello()])
    streamed = converse(client, [hello()])
    seen = {
        "version": anthropic.__version__,
        "whole": whole.content[0].text,
        "streamed": streamed.content[0].text,
        "output_tokens": [whole.usage.output_tokens, streamed.usage.output_tokens],
        "stop_reasons": [whole.stop_reason, streamed.stop_reason],
        "call": [call.name, call.input],
        "final": converse(client, history).content[0].text,
        "thinking": [block.type for block in converse(client, [hello()], model="script/think").content],
        "error": error_of(client),
    }
    json.dump(seen, sys.stdout)


def hello() -> Any:
    return {"role": "user", "content": "Hello"}


def converse(client: Any, history: list[Any], model: str = "demo") -> Any:
    with client.messages.stream(model=model, max_tokens=300, messages=history, tools=[WEATHER]) as stream:
        return stream.get_final_message()


def error_of(client: Any) -> str | None:
    try:
        converse(client, [hello()], model="script/errorframe=429,frame=3")
    except anthropic.APIStatusError as exc:
        body: Any = exc.body
        return str(body["error"]["type"])
    return None


main(*sys.argv[1:])
