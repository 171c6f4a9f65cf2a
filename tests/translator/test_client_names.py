import pytest

from translator.api import CLIENT


@pytest.mark.parametrize(
    ("user_agent", "expected"),
    [
        ("claude-cli/2.1.332 (external, sdk-cli)", ("claude-cli", "2.1.332")),
        ("Anthropic/Python 2.14.0", ("Anthropic/Python", "2.14.0")),
        ("Anthropic/JS 1.14.0", ("Anthropic/JS", "1.14.0")),
        ("opencode/1.18.33 ai-sdk/provider-utils/3.0.140", ("opencode", "1.18.33")),
        ("python-httpx/0.28.1", ("python-httpx", "0.28.1")),
        ("curl/7.88.1", ("curl", "7.88.1")),
    ],
)
def test_a_client_is_known_by_name_and_version(user_agent, expected):
    found = CLIENT.match(user_agent)

    assert found is not None
    assert found.groups() == expected


@pytest.mark.parametrize("user_agent", ["", "Mozilla", "<script>/1", "a" * 100 + "/1"])
def test_what_is_no_name_stays_unknown(user_agent):
    assert CLIENT.match(user_agent) is None
