from django.apps import AppConfig


class MembersConfig(AppConfig):
    name = "members"
    verbose_name = "Members"

    def ready(self) -> None:
        from members import proof

        proof.watch_logins()
