from django.urls import path

from members import logins, team_views, token_views, views

app_name = "members"
urlpatterns = [
    path("", views.home, name="home"),
    path("sessions/<path:session_id>/", views.session, name="session"),
    path("team/", team_views.show, name="team"),
    path("tokens/new/", token_views.issue, name="token-new"),
    path("tokens/<int:pk>/rotate/", token_views.rotate, name="token-rotate"),
    path("tokens/<int:pk>/leak/", token_views.leak, name="token-leak"),
    path("tokens/<int:pk>/revoke/", token_views.revoke, name="token-revoke"),
    path("tokens/<int:pk>/try/", token_views.try_out, name="token-try"),
    path("login/", logins.MemberLogin.as_view(), name="login"),
    path("logout/", logins.LogoutView.as_view(), name="logout"),
    path("password/", logins.PasswordChange.as_view(), name="password"),
    path("prove/", logins.prove_again, name="prove"),
    path("second-factor/", logins.show_second_factor, name="second-factor"),
    path("second-factor/remove/", logins.remove_factor, name="second-factor-remove"),
]
