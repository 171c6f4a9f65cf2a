"""What the `anthropic` SDK makes of streams: reads a plan from its input, prints what it saw, both as JSON.

The plan: `{"base_url", "token", "models": [...], "question": {...}}`; one call is made for each model.
Runs inside the tests with the SDK they are installed with, and in an environment of its own with an older one.
"""

import json
import sys
from typing import Any

import anthropic


def collect(plan: dict[str, Any]) -> list[dict[str, Any]]:
    client: Any = anthropic.Anthropic(base_url=plan["base_url"], api_key=plan["token"], max_retries=0)
    return [message_of(client, {**plan["question"], "model": model}) for model in plan["models"]]


def message_of(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    try:
        with client.messages.stream(**question) as stream:
            final = stream.get_final_message()
    except anthropic.APIStatusError as exc:
        body: Any = exc.body
        return {"error": body["error"]["type"]}
    except Exception as exc:  # whatever it is, the test shall show it
        return {"error": f"{type(exc).__name__}: {exc}"}
    usage = final.usage
    return {
        "blocks": [shortened(block) for block in final.content],
        "stop": final.stop_reason,
        "sequence": final.stop_sequence,
        "usage": [usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens],
    }


def shortened(block: Any) -> Any:
    match block.type:
        case "text":
            return block.text
        case "thinking":
            return ["thinking", block.thinking] if block.signature else ["thinking without signature", block.thinking]
        case _:
            return ["call", block.id, block.name, block.input]


if __name__ == "__main__":
    json.dump({"version": anthropic.__version__, "seen": collect(json.load(sys.stdin))}, sys.stdout)
