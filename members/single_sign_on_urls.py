"""The addresses of single sign-on; `members.single_sign_on` says more."""

from django.urls import include, path

from members.single_sign_on import refuse

#: Pages of allauth that its code leads to, and Bridge doesn't have.
NAMES = (
    "account_login",
    "account_logout",
    "account_inactive",
    "account_signup",
    "account_reauthenticate",
    "socialaccount_signup",
    "socialaccount_login_cancelled",
    "socialaccount_login_error",
    "socialaccount_connections",
)

urlpatterns = [
    path("", include("allauth.socialaccount.providers.openid_connect.urls")),
    *(path(f"refused/{name}/", refuse, name=name) for name in NAMES),
]
