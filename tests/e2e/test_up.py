"""The first command of a stranger: `manage.py up --demo` on an empty folder."""

from pathlib import Path

import anthropic
import httpx
import pytest

from tests.up import up

pytestmark = pytest.mark.timeout(180)


def test_one_command_gives_a_gateway_that_answers(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    with up(data_dir) as first, anthropic.Anthropic(base_url=first.base_url, api_key=first.token) as client:
        message = client.messages.create(
            model="claude-sonnet-5-5", max_tokens=200, messages=[{"role": "user", "content": "Hello there"}]
        )
        login = httpx.get(f"{first.base_url}/admin/login/", trust_env=False)

    assert message.content[0].type == "text"
    assert "Hello there" in message.content[0].text
    assert "password" in login.text

    with up(data_dir) as again, anthropic.Anthropic(base_url=again.base_url, api_key=first.token) as client:
        assert client.messages.count_tokens(
            model="claude-sonnet-5-5", messages=[{"role": "user", "content": "Hello"}]
        ).input_tokens
        assert "password" not in again.text
