"""Lines that point a client at Bridge, ready to paste."""

from dataclasses import dataclass

from keys.models import Route

PLACEHOLDER = "YOUR_TOKEN"
MODEL_DEFAULT = "claude-sonnet-4-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One client's lines."""

    client: str
    note: str
    lines: str


CLAUDE_CODE = """export ANTHROPIC_BASE_URL={url}
export ANTHROPIC_AUTH_TOKEN={token}
claude"""
SETTINGS = """{{
  "env": {{
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_AUTH_TOKEN": "{token}",
    "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"
  }}
}}"""
PYTHON = """from anthropic import Anthropic

client = Anthropic(base_url="{url}", auth_token="{token}")
message = client.messages.create(
    model="{model}", max_tokens=200, messages=[{{"role": "user", "content": "Hello"}}]
)
print(message.content[0].text)"""
TYPESCRIPT = """import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({{ baseURL: "{url}", authToken: "{token}" }});
const message = await client.messages.create({{
  model: "{model}", max_tokens: 200, messages: [{{ role: "user", content: "Hello" }}],
}});
console.log(message.content);"""
CURL = """curl {url}/v1/messages \\
  -H "x-api-key: {token}" -H "content-type: application/json" \\
  -d '{{"model": "{model}", "max_tokens": 200, "messages": [{{"role": "user", "content": "Hello"}}]}}'"""
OPENAI = """from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{token}")
answer = client.chat.completions.create(
    model="{model}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)"""
CLIENTS = (
    ("Claude Code", "In the shell, before you start it.", CLAUDE_CODE),
    (
        "Claude Code, for good",
        "In ~/.claude/settings.json. The last line lets it tell which of its agents asks: see the page of a session.",
        SETTINGS,
    ),
    ("Anthropic SDK, Python", "", PYTHON),
    ("Anthropic SDK, TypeScript", "", TYPESCRIPT),
    ("curl", "", CURL),
    ("OpenAI clients", "Anything that speaks chat/completions takes the same token.", OPENAI),
)


def setups(url: str, token: str = PLACEHOLDER) -> list[Setup]:
    """Write the lines for each client; without a token they hold a placeholder."""
    values = {"url": url.rstrip("/"), "token": token, "model": model_to_try()}
    return [Setup(client=client, note=note, lines=lines.format(**values)) for client, note, lines in CLIENTS]


def model_to_try() -> str:
    """Return a model alias that is routed; a well-known name where only patterns are."""
    names = Route.objects.filter(enabled=True).exclude(alias__endswith="*").order_by("alias")
    return names.values_list("alias", flat=True).first() or MODEL_DEFAULT
