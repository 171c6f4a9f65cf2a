"""The ASGI application: the API on a lean path, everything else through Django.

Django's own ASGI handler hops to a thread three times a request and spools the body to a file before any view
or any check of the caller. The API needs neither, so its paths go to `lean`; sockets go to channels, and the
admin keeps Django's handler.
"""

import os
import warnings

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bridgeproject.settings")
django.setup(set_prefix=False)

# WhiteNoise's files are small: reading them at once is what we want.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

from typing import Any  # noqa: E402

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402

from bridgeproject import lean, pages, services  # noqa: E402
from bridgeproject.urls import websocket_urlpatterns  # noqa: E402

django_application = get_asgi_application()
socket_application = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    match scope["type"]:
        case "lifespan":
            await services.lifespan(receive, send)
        case "websocket":
            await socket_application(scope, receive, send)
        case "http" if lean.is_lean(scope["path"], scope["method"]):
            await lean.handle(scope, receive, send)
        case "http":
            await pages.handle(django_application, scope, receive, send)
