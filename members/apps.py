from django.apps import AppConfig


class MembersConfig(AppConfig):
    name = "members"
    verbose_name = "Members"

    def ready(self) -> None:
        from django.apps import apps

        from members import proof

        # People and teams stand under Members in the side bar, and so they do at the head of their pages.
        apps.get_app_config("auth").verbose_name = self.verbose_name
        proof.watch_logins()
