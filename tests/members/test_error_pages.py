"""What is missing, refused or broken has a page of ours, and the way back."""

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.views.defaults import server_error

from tests.members.test_pages import text_of

HOME = '<a href="/">'


@pytest.mark.parametrize("path", ["/nothing/", "/admin/nothing/", "/sessions/nobodys/"])
def test_what_is_missing_is_told(client_of, lea: User, path: str) -> None:
    answer = client_of(lea).get(path)

    assert answer.status_code == 404
    assert "There is nothing here" in text_of(answer)
    assert "My team" in text_of(answer)
    assert HOME in answer.content.decode()


def test_strangers_are_told_no_more(client_of, db: None) -> None:
    answer = client_of(None).get("/nothing/")

    assert answer.status_code == 404
    assert "My usage" not in text_of(answer)


def test_what_is_refused_is_told(client_of, lea: User) -> None:
    answer = client_of(lea).get("/admin/keys/upstream/")

    assert answer.status_code == 403
    assert "That isn't yours to open" in text_of(answer)


def test_a_form_without_its_token_is_told_what_to_look_at(db: None) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "bob", "password": "x"})

    assert answer.status_code == 403
    assert "BRIDGE_TRUSTED_ORIGINS" in text_of(answer)


def test_an_unknown_host_is_told_what_to_look_at(db: None) -> None:
    answer = Client().get("/login/", headers={"host": "elsewhere.example"})

    assert answer.status_code == 400
    assert "BRIDGE_ALLOWED_HOSTS" in text_of(answer)


def test_a_fault_needs_nothing_to_be_told() -> None:
    answer = server_error(RequestFactory().get("/"))

    assert answer.status_code == 500
    assert "That went wrong" in text_of(answer)
    assert HOME in answer.content.decode()
