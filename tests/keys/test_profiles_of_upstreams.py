import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from keys.models import Upstream


@pytest.mark.parametrize(
    ("profile", "overrides", "word"),
    [("vlm", {}, "vlm"), ("vllm", {"no_such_switch": 1}, "no_such_switch"), ("", {"vision": "yes"}, "vision")],
)
def test_a_profile_that_makes_no_sense_is_refused_by_name(profile, overrides, word):
    upstream = Upstream(name="acme", base_url="https://acme.example/v1", profile=profile, profile_overrides=overrides)

    with pytest.raises(ValidationError, match=word):
        upstream.clean()


def test_a_known_profile_with_a_known_override_is_taken():
    Upstream(name="acme", base_url="https://acme.example", profile="vllm", profile_overrides={"vision": False}).clean()


def test_the_command_refuses_an_unknown_profile(db):
    with pytest.raises(CommandError, match="vlm"):
        call_command("add_upstream", "acme", "https://acme.example/v1", "--profile", "vlm")
