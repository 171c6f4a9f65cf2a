"""How people log in with a password, and what their roles let them do."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from keys.addresses import address_of
from keys.roles import permissions_of, roles_of
from members.lockout import count_failure, forget_failures, is_locked


class MemberBackend(ModelBackend):
    """Django's own, with a pause for guessers and the permissions of roles."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        if username is None or password is None:
            return None
        address = address_of(request)
        if is_locked(username, address):
            raise PermissionDenied
        user = super().authenticate(request, username=username.replace("\x00", ""), password=password, **kwargs)
        if user is None:
            count_failure(username, address)
        else:
            forget_failures(username, address)
        return user

    def get_group_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        if obj is not None or user_obj.is_anonymous or not user_obj.is_active:
            return set()
        return {*super().get_group_permissions(user_obj), *permissions_of(roles_of(user_obj))}
