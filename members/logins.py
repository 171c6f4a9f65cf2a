"""Logging in and out, typing the password again, and the second factor."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django_otp import login as otp_login
from django_otp import match_token

from keys.addresses import address_of
from members import second_factor
from members.access import member_of
from members.audit import acting
from members.forms import CodeForm, ProofForm
from members.proof import is_fresh, prove, prove_url

__all__ = ["LogoutView", "MemberLogin", "PasswordChange", "prove_again", "remove_factor", "show_second_factor"]


class MemberLogin(LoginView):
    template_name = "members/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, single_sign_on=single_sign_on(self.request))


@method_decorator(sensitive_post_parameters(), name="dispatch")
class PasswordChange(PasswordChangeView):
    template_name = "members/password.html"
    success_url = reverse_lazy("members:home")

    def form_valid(self, form):  # type: ignore[no-untyped-def]
        messages.success(self.request, "Your password is changed.")
        return super().form_valid(form)


@sensitive_post_parameters("password")
@never_cache
@login_required
def prove_again(request: HttpRequest) -> HttpResponse:
    member = member_of(request)
    form = ProofForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = authenticate(request, username=member.get_username(), password=form.cleaned_data["password"])
        if user is not None and user.pk == member.pk:
            prove(request)
            return HttpResponseRedirect(next_url(request))
        form.add_error("password", "That is not your password, or you tried too often and have to wait.")
    sign_on = None if member.has_usable_password() else single_sign_on(request)
    context = {"form": form, "next": next_url(request), "single_sign_on": sign_on}
    return render(request, "members/prove.html", context)


@sensitive_post_parameters("code")
@never_cache
@login_required
def show_second_factor(request: HttpRequest) -> HttpResponse:
    """Ask for the code of whoever is enrolled; enrol whoever isn't."""
    user: Any = request.user
    if user.is_verified():
        return render(request, "members/second_factor.html", {"is_on": True})
    if second_factor.is_enrolled(user):
        return _ask_code(request)
    if not is_fresh(request):
        return HttpResponseRedirect(prove_url(request.get_full_path()))
    return _enrol(request)


@never_cache
@login_required
def remove_factor(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return redirect("members:second-factor")
    if not is_fresh(request):
        return HttpResponseRedirect(prove_url(reverse("members:second-factor")))
    second_factor.remove_second_factor(request.user)
    messages.success(request, "The second factor is removed.")
    return redirect("members:home")


def single_sign_on(request: HttpRequest) -> dict[str, str] | None:
    """Return the name and address of single sign-on, leading to where the request wanted to go; None without one."""
    if not settings.OIDC_ISSUER:
        return None
    query = urlencode({"next": next_url(request)})
    return {"name": settings.OIDC_NAME, "url": f"{reverse('openid_connect_login', args=['oidc'])}?{query}"}


def next_url(request: HttpRequest) -> str:
    """Return where the request wanted to go, if that is a page of ours; else the member's page."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if is_ours else reverse("members:home")


def _ask_code(request: HttpRequest) -> HttpResponse:
    form = CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        device = match_token(request.user, form.cleaned_data["code"])
        if device is not None:
            otp_login(request, device)
            return HttpResponseRedirect(next_url(request))
        form.add_error("code", "That code is wrong, was used, or came too soon after a wrong one.")
    return render(request, "members/code.html", {"form": form, "next": next_url(request)})


def _enrol(request: HttpRequest) -> HttpResponse:
    with acting(request.user.get_username(), address_of(request)):
        device = second_factor.begin_enrolment(request.user)
    form = CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if device.verify_token(form.cleaned_data["code"]):
            codes = second_factor.confirm_enrolment(device)
            otp_login(request, device)
            return render(request, "members/backup_codes.html", {"codes": codes, "next": next_url(request)})
        form.add_error(
            "code", "That code doesn't fit. Look whether the clocks of both devices agree, and try the next."
        )
    context = {
        "form": form,
        "next": next_url(request),
        "is_required": second_factor.is_missing(request.user),
        "picture": second_factor.drawn(device),
        "spelled": second_factor.spelled(device),
    }
    return render(request, "members/enrol.html", context)
