from dataclasses import fields
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from translator.core.profiles import PROFILES, Profile, ProfileError, profile_named

PROJECT = Path(__file__).parents[3]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"speed": 1}, r"^unknown profile switch 'speed'$"),
    ({"stream_usage": "yes"}, r"^profile switch 'stream_usage': 'yes' is not true or false$"),
    ({"stream_usage": 1}, "is not true or false"),
    ({"stop_max": "4"}, r"^profile switch 'stop_max': '4' is not a number from 0 or null$"),
    ({"stop_max": True}, "is not a number from 0 or null"),
    ({"stop_max": -1}, "is not a number from 0 or null"),
    ({"tool_name_max": None}, "is not a number from 0$"),
    ({"prefill": "perhaps"}, "is not plain or prefix or continue or reject"),
    ({"prefill": ["plain"]}, "is not plain or prefix or continue or reject"),
    ({"effort_off": None}, "is not a string"),
    ({"template_kwargs": "thinking"}, "is not a list of strings"),
    ({"template_kwargs": [1]}, "is not a list of strings"),
    ({"headers": {"X-Team": 1}}, "is not a JSON object"),
    ({"extra_body": []}, "is not a JSON object"),
    ({"by_model": []}, r"^profile switch 'by_model': a JSON object is needed$"),
    ({"by_model": {"gpt": {"speed": 1}}}, r"^unknown profile switch by_model\['gpt'\] 'speed'$"),
    ({"by_model": {"gpt": 5}}, r"^profile overrides by_model\['gpt'\]: a JSON object is needed$"),
]


@pytest.mark.parametrize(("overrides", "message"), WRONG)
def test_a_wrong_switch_is_named(overrides: dict[str, Any], message: str):
    with pytest.raises(ProfileError, match=message):
        profile_named("plain", overrides)


def test_an_unknown_profile_is_named_beside_those_there_are():
    with pytest.raises(ProfileError, match=r"^unknown profile 'opnai'; there are plain, openai, "):
        profile_named("opnai")


def test_overrides_that_are_no_object_are_refused():
    with pytest.raises(ProfileError, match="a JSON object is needed"):
        profile_named("plain", [])  # type: ignore[arg-type]


def test_overrides_are_laid_over_the_named_profile():
    overrides: dict[str, Any] = {
        "stop_max": None,
        "template_kwargs": ["thinking"],
        "headers": {"X-Team": "blue"},
        "extra_body": {"provider": {"order": []}},
        "by_model": {"gpt": {"vision": False}},
    }

    profile = profile_named("vllm", overrides)

    assert profile.top_k is PROFILES["vllm"].top_k
    assert profile.template_kwargs == ("thinking",)
    assert profile.headers == {"X-Team": "blue"}
    assert profile.for_model("gpt-9").vision is False
    assert profile.for_model("openai/gpt-9").vision is False
    assert profile.for_model("my-gpt").vision is True


def test_the_longest_beginning_of_a_models_name_wins():
    profile = Profile(by_model={"gpt": {"stop_max": 1}, "gpt-5": {"stop_max": 2}})

    assert [profile.for_model(name).stop_max for name in ("gpt-4", "gpt-5-mini", "qwen")] == [1, 2, 4]


@pytest.mark.parametrize("name", PROFILES)
def test_what_the_table_says_of_models_are_switches(name: str):
    known = {switch.name for switch in fields(Profile)}

    assert all(set(switches) <= known for switches in PROFILES[name].by_model.values())


def test_the_documentation_is_current():
    render = run_path(str(PROJECT / "scripts" / "render_profiles"))["render"]

    assert (PROJECT / "docs" / "profiles.md").read_text() == render()
