"""What an operator says about answers that a model cuts off."""

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.transaction import atomic
from django.urls import reverse
from pydantic import ValidationError

from keys.models import CONTINUE_ROUNDS_MAX, Upstream, UpstreamModel
from keys.setup_file import ModelPart
from tests.keys.test_compaction_settings import form_of


def test_answers_stay_cut_unless_somebody_says_so(upstream: Upstream) -> None:
    assert UpstreamModel.objects.create(upstream=upstream, name="m").continue_rounds == 0
    assert ModelPart(name="m").continue_rounds == 0


@pytest.mark.parametrize("rounds", [1, CONTINUE_ROUNDS_MAX])
def test_the_form_switches_it_on(client_of, alice: User, upstream: Upstream, rounds: int) -> None:
    answer = client_of(alice).post(reverse("admin:keys_upstreammodel_add"), form_of(upstream, continue_rounds=rounds))

    assert answer.status_code == 302, answer.context["errors"]
    assert UpstreamModel.objects.get().continue_rounds == rounds


def test_more_rounds_than_are_good_are_refused_everywhere(client_of, alice: User, upstream: Upstream) -> None:
    many = CONTINUE_ROUNDS_MAX + 1
    answer = client_of(alice).post(reverse("admin:keys_upstreammodel_add"), form_of(upstream, continue_rounds=many))

    assert "less than or equal to 4" in answer.content.decode()
    with pytest.raises(IntegrityError), atomic():
        UpstreamModel.objects.create(upstream=upstream, name="m", continue_rounds=many)
    with pytest.raises(ValidationError):
        ModelPart(name="m", continue_rounds=many)
