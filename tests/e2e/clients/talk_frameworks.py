"""A conversation with a tool through frameworks that bring parsers of their own; prints what they saw as JSON.

Run by tests/e2e/test_frameworks.py in an environment of its own: `python talk_frameworks.py BASE_URL TOKEN`.
"""

import asyncio
import json
import sys
from typing import Any

from anthropic import AsyncAnthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from llm_anthropic import ClaudeMessages
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

PROMPT = 'How warm is it? <<TOOL {"name": "get_weather", "input": {"city": "Paris"}}>> <<FINAL it is warm>>'


def langchain(base_url: str, token: str) -> dict[str, Any]:
    weather = {
        "name": "get_weather",
        "description": "Tell the weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    model = ChatAnthropic(model="demo", base_url=base_url, api_key=token, max_tokens=300, max_retries=0)
    bound = model.bind_tools([weather])
    history: list[Any] = [HumanMessage(PROMPT)]
    asked = gathered(bound.stream(history))
    [call] = asked.tool_calls
    history += [asked, ToolMessage("18 degrees", tool_call_id=call["id"])]
    final = gathered(bound.stream(history))
    whole = model.invoke([HumanMessage("Hello")])
    return {
        "cities": [call["args"]["city"]],
        "final": final.text,
        "usage": [final.usage_metadata["input_tokens"] > 0, final.usage_metadata["output_tokens"] > 0],
        "whole": whole.text,
    }


def gathered(chunks: Any) -> Any:
    total = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    return total


async def pydantic_ai(base_url: str, token: str) -> dict[str, Any]:
    cities: list[str] = []
    provider = AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=base_url, api_key=token, max_retries=0))
    agent = Agent(AnthropicModel("demo", provider=provider))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        cities.append(city)
        return "18 degrees"

    whole = (await agent.run("Hello")).output
    async with agent.run_stream(PROMPT) as answer:
        final = await answer.get_output()
    usage = answer.usage() if callable(answer.usage) else answer.usage
    return {
        "cities": cities,
        "final": final,
        "usage": [usage.input_tokens > 0, usage.output_tokens > 0],
        "whole": whole,
    }


def llm_plugin(base_url: str, token: str) -> dict[str, Any]:
    model = ClaudeMessages("demo", claude_model_id="demo")
    model.base_url = base_url
    streamed = model.prompt("Hello", key=token)
    whole = model.prompt("Hello", key=token, stream=False)
    return {
        "streamed": "".join(streamed),
        "whole": whole.text(),
        "usage": [whole.usage().input > 0, whole.usage().output > 0],
    }


if __name__ == "__main__":
    base_url, token = sys.argv[1:]
    seen = {"langchain": langchain(base_url, token), "pydantic-ai": asyncio.run(pydantic_ai(base_url, token))}
    seen["llm"] = llm_plugin(base_url, token)
    json.dump(seen, sys.stdout)
