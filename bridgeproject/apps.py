from django.apps import AppConfig


class BridgeProjectConfig(AppConfig):
    name = "bridgeproject"
    verbose_name = "Bridge"

    def ready(self) -> None:
        from bridgeproject import checks  # noqa: F401  (registers the system checks)
