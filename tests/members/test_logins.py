import time

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_otp.oath import totp
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from keys.credentials import add_secrets
from keys.models import Credential, Upstream
from members.lockout import FAILURES_MAX
from members.models import AuditEntry, LoginFailure
from members.proof import FRESH_S, PROVED_AT
from tests.members.conftest import PASSWORD

LOGIN = "/login/"
ADMIN_LOGIN = "/admin/login/"


def try_login(browser: Client, password: str, *, address: str = "192.0.2.1", page: str = LOGIN) -> bool:
    answer = browser.post(page, {"username": "ada", "password": password}, REMOTE_ADDR=address)
    return answer.status_code == 302


def age_proof(browser: Client) -> None:
    session = browser.session
    session[PROVED_AT] = int(time.time()) - FRESH_S - 1
    session.save()


@pytest.mark.parametrize("page", [LOGIN, ADMIN_LOGIN])
def test_a_guesser_locks_out_only_their_own_address(ada: User, page: str) -> None:
    for _ in range(FAILURES_MAX + 2):
        assert not try_login(Client(), "guess", page=page)

    assert not try_login(Client(), PASSWORD, page=page)
    assert try_login(Client(), PASSWORD, address="192.0.2.2", page=page)
    assert try_login(Client(), PASSWORD, address="192.0.2.2", page=page)


def test_a_locked_pair_may_try_again_later(ada: User) -> None:
    for _ in range(FAILURES_MAX):
        try_login(Client(), "guess")
    LoginFailure.objects.update(since="2026-01-01T00:00:00Z")

    assert try_login(Client(), PASSWORD)


def test_a_right_password_forgets_the_wrong_ones(ada: User) -> None:
    for _ in range(FAILURES_MAX - 1):
        try_login(Client(), "guess")
    assert try_login(Client(), PASSWORD)

    assert not LoginFailure.objects.exists()


def test_a_client_can_not_write_its_address(ada: User) -> None:
    for number in range(FAILURES_MAX):
        data = {"username": "ada", "password": "guess"}
        Client().post(LOGIN, data, REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")

    assert not try_login(Client(), PASSWORD)


@pytest.mark.parametrize("name", ["\x00", "a" * 5000, "' OR 1=1--", "💥"])
def test_odd_names_are_wrong_names(db, name: str) -> None:
    assert Client().post(LOGIN, {"username": name, "password": "x"}).status_code == 200


def test_a_login_leads_only_to_pages_of_ours(ada: User) -> None:
    for wanted, where in (("https://evil.example/", "/"), ("//evil.example", "/"), ("/tokens/new/", "/tokens/new/")):
        answer = Client().post(LOGIN, {"username": "ada", "password": PASSWORD, "next": wanted})
        assert answer["Location"] == where


def test_a_session_ends_after_eight_hours(ada: User) -> None:
    browser = Client()
    try_login(browser, PASSWORD)

    assert browser.cookies["sessionid"]["max-age"] == 8 * 60 * 60


def test_credentials_change_only_after_a_fresh_password(client_of, ada: User, upstream: Upstream) -> None:
    credential = add_secrets(upstream, ["sk-stored-0000-0001"]).credentials[0]
    page = reverse("admin:keys_credential_change", args=[credential.pk])
    action = {"action": "disable", "_selected_action": [credential.pk]}
    browser = client_of(ada)
    age_proof(browser)

    for answer in (
        browser.get(page),
        browser.post(page, {"label": "renamed"}),
        browser.get(reverse("admin:keys_credential_add")),
        browser.get(reverse("admin:keys_credential_delete", args=[credential.pk])),
        browser.post(reverse("admin:keys_credential_changelist"), action),
    ):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/prove/?next=")
    assert Credential.objects.get().enabled
    assert browser.get(reverse("admin:keys_credential_changelist")).status_code == 200

    answer = browser.post("/prove/", {"password": PASSWORD, "next": page})
    assert answer["Location"] == page
    assert browser.get(page).status_code == 200


def test_a_wrong_password_proves_nothing(client_of, ada: User, upstream: Upstream) -> None:
    browser = client_of(ada)
    age_proof(browser)

    assert browser.post("/prove/", {"password": "wrong"}).status_code == 200
    assert browser.get(reverse("admin:keys_credential_add")).status_code == 302


def enrol(browser: Client, user: User) -> list[str]:
    """Turn the second factor on; return the backup codes."""
    browser.get("/second-factor/")
    device = TOTPDevice.objects.get(user=user)
    answer = browser.post("/second-factor/", {"code": f"{totp(device.bin_key):06d}"})
    return answer.context["codes"]


def test_staff_need_a_second_factor_where_it_is_required(client_of, ada: User, bob: User, settings) -> None:
    settings.REQUIRE_2FA = True
    browser = client_of(ada)
    for page in (
        "/admin/",
        "/",
        reverse("admin:keys_credential_changelist"),
        "/tokens/new/",
        "/admin/playground/",
        "/admin/model-check/",
    ):
        assert browser.get(page)["Location"].startswith("/second-factor/?next=")

    enrol(browser, ada)
    assert browser.get("/admin/").status_code == 200
    assert client_of(bob).get("/").status_code == 200


def test_whoever_has_a_second_factor_is_asked_for_it(client_of, bob: User) -> None:
    codes = enrol(client_of(bob), bob)
    browser = client_of(bob)
    assert browser.get("/")["Location"].startswith("/second-factor/?next=")
    assert browser.post("/second-factor/", {"code": "not one"}).status_code == 200
    assert browser.get("/").status_code == 302

    for model in (TOTPDevice, StaticDevice):  # a wrong code makes the next one wait
        model.objects.update(throttling_failure_count=0, throttling_failure_timestamp=None)
    assert browser.post("/second-factor/", {"code": codes[0], "next": "/tokens/new/"})["Location"] == "/tokens/new/"
    assert browser.get("/").status_code == 200

    again = client_of(bob)
    again.post("/second-factor/", {"code": codes[0]})
    assert again.get("/").status_code == 302, "a backup code works once"


def test_enrolment_wants_a_fresh_password_and_shows_no_secret_afterwards(client_of, bob: User) -> None:
    browser = client_of(bob)
    age_proof(browser)
    assert browser.get("/second-factor/")["Location"].startswith("/prove/")

    fresh = client_of(bob)
    codes = enrol(fresh, bob)
    page = fresh.get("/second-factor/").content.decode()
    assert not any(code in page for code in codes)
    assert AuditEntry.objects.filter(kind="second factor", actor="bob").exists()


def test_an_admin_removes_a_lost_second_factor(client_of, ada: User, bob: User, root: User) -> None:
    enrol(client_of(bob), bob)
    enrol(client_of(root), root)
    action = {"action": "reset_second_factor", "_selected_action": [bob.pk, root.pk]}

    client_of(ada).post(reverse("admin:auth_user_changelist"), action)

    assert not TOTPDevice.objects.filter(user=bob).exists()
    assert TOTPDevice.objects.filter(user=root).exists(), "that of a superuser is for superusers"


def test_logging_out_takes_a_form(client_of, bob: User) -> None:
    browser = client_of(bob)
    assert browser.get("/logout/").status_code == 405
    browser.post("/logout/")

    assert browser.get("/")["Location"].startswith("/login/")


def test_the_admins_login_leads_into_the_admin(ada: User) -> None:
    browser = Client()
    form = browser.get(ADMIN_LOGIN).content.decode()
    assert 'name="next" value="/admin/"' in form

    answer = browser.post(ADMIN_LOGIN, {"username": "ada", "password": PASSWORD, "next": "/admin/"})

    assert answer["Location"] == "/admin/"


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("localhost:8443", 200), ("127.0.0.1:8000", 404)])
def test_the_admin_can_have_a_host_of_its_own(client_of, ada: User, settings, host: str, status: int) -> None:
    settings.ADMIN_HOSTS = ["localhost"]
    browser = client_of(ada)

    assert browser.get("/admin/", headers={"host": host}).status_code == status
    assert browser.get("/", headers={"host": host}).status_code == 200
