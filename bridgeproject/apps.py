from django.apps import AppConfig


class BridgeProjectConfig(AppConfig):
    name = "bridgeproject"
    verbose_name = "Bridge"

    def ready(self) -> None:
        from django.conf import settings

        from bridgeproject import checks  # noqa: F401  (registers the system checks)
        from keys import outside, repairs
        from translator.probing import Prober
        from usage.repairs import count_repairs

        outside.use(Prober(allowed=settings.ALLOW_PRIVATE_UPSTREAMS))
        repairs.use(count_repairs)
