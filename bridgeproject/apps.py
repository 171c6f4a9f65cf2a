from django.apps import AppConfig


class BridgeProjectConfig(AppConfig):
    name = "bridgeproject"
    verbose_name = "Bridge"

    def ready(self) -> None:
        from django.conf import settings

        from bridgeproject import checks  # noqa: F401  (registers the system checks)
        from keys import outside
        from translator.probing import Prober

        outside.use(Prober(allowed=settings.ALLOW_PRIVATE_UPSTREAMS))
