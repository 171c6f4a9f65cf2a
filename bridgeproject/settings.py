"""Settings of Bridge. Every `BRIDGE_*` variable is listed in docs/configuration.md."""

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP

from bridgeproject.database import conninfo, embedded_parts, parse_database_url
from bridgeproject.env import env_bool, env_int, env_list, env_secret, env_str
from bridgeproject.lock import is_up
from bridgeproject.secrets import encryption_keys, encryption_keys_file, secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env_str("BRIDGE_DATA_DIR") or BASE_DIR / ".bridge").resolve()

DEBUG = env_bool("BRIDGE_DEBUG")
SECRET_KEY = secret_key(DATA_DIR)
ALLOWED_HOSTS = env_list("BRIDGE_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]", "testserver"]
#: Where the admin answers; empty for everywhere.
ADMIN_HOSTS = env_list("BRIDGE_ADMIN_HOSTS")
CSRF_TRUSTED_ORIGINS = env_list("BRIDGE_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    # Only `runserver` is Daphne's business, and importing it takes longer than the rest of a start.
    *(["daphne"] if "runserver" in sys.argv else []),
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_otp",
    "django_otp.plugins.otp_static",
    "django_otp.plugins.otp_totp",
    "channels",
    # Brings the files of the API's page, so that it needs no other host.
    "ninja",
    "bridgeproject",
    "translator",
    "members",
    "keys",
    "usage",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "members.admin_hosts.keep_admin_apart",
    "members.second_factor.SecondFactorMiddleware",
    "members.proof.ProofMiddleware",
    "members.audit.name_actor",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "bridgeproject.urls"
ASGI_APPLICATION = "bridgeproject.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASE_URL = env_secret("BRIDGE_DATABASE_URL")
_parts = parse_database_url(DATABASE_URL) if DATABASE_URL else embedded_parts(DATA_DIR)
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", **_parts}}
DATABASE_CONNINFO = conninfo(_parts)

REDIS_URL = env_secret("BRIDGE_REDIS_URL")
CHANNEL_LAYERS: dict[str, dict[str, object]] = {
    "default": (
        {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}

# smtp://user:password@host:25; `smtps:` for TLS from the start, `smtp+starttls:` for TLS after a greeting.
_smtp_url = env_secret("BRIDGE_SMTP_URL")
_smtp = urlsplit(_smtp_url or "smtp://localhost:25")
MAILERS = {
    "default": {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "OPTIONS": {
            "host": _smtp.hostname or "localhost",
            "port": _smtp.port,
            "username": unquote(_smtp.username or ""),
            "password": unquote(_smtp.password or ""),
            "use_ssl": _smtp.scheme == "smtps",
            "use_tls": _smtp.scheme == "smtp+starttls",
            "timeout": 10,
        },
    }
}
#: Whether members are reminded of what ends; without a mail server of the team's that would only fill the log.
MAILS_MEMBERS = bool(_smtp_url)
#: Who is told of credentials that somebody must look after.
ALERT_EMAILS = env_list("BRIDGE_ALERT_EMAILS")
ALERT_WEBHOOK = env_secret("BRIDGE_ALERT_WEBHOOK")
DEFAULT_FROM_EMAIL = env_str("BRIDGE_MAIL_FROM", "bridge@localhost")

AUTHENTICATION_BACKENDS = ["members.backends.MemberBackend"]
LOGIN_URL = "members:login"
LOGIN_REDIRECT_URL = "members:home"
LOGOUT_REDIRECT_URL = "members:login"
#: Whether staff must show a second factor. Whoever has enrolled one is asked for it in any case.
REQUIRE_2FA = env_bool("BRIDGE_REQUIRE_2FA")
OTP_TOTP_ISSUER = "Bridge"

# Single sign-on by OpenID Connect; needs the `oidc` extra.
OIDC_ISSUER = env_str("BRIDGE_OIDC_ISSUER")
OIDC_NAME = env_str("BRIDGE_OIDC_NAME", "Single sign-on")
OIDC_CREATE_MEMBERS = env_bool("BRIDGE_OIDC_CREATE_MEMBERS")
if OIDC_ISSUER:
    # First, so that their admin pages are there to be taken away.
    INSTALLED_APPS[:0] = [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
SOCIALACCOUNT_ONLY = True
SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = ""
SOCIALACCOUNT_ADAPTER = "members.single_sign_on.OidcAdapter"
ACCOUNT_EMAIL_VERIFICATION = SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
# By a link: the policy on forms would stop a form that ends at the provider.
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": env_str("BRIDGE_OIDC_CLIENT_ID"),
                "secret": env_secret("BRIDGE_OIDC_CLIENT_SECRET"),
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "bridgeproject.formats"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Files are found where the packages keep them: nothing has to be collected.
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

SESSION_COOKIE_AGE = 8 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env_bool("BRIDGE_HTTPS")
if DEBUG and SESSION_COOKIE_SECURE:
    _msg = "BRIDGE_DEBUG shows code and settings to whoever meets an error: it can't be on together with BRIDGE_HTTPS"
    raise ImproperlyConfigured(_msg)
#: Browsers that came by HTTPS once come by nothing else for so long, in seconds.
SECURE_HSTS_SECONDS = 30 * 24 * 60 * 60 if SESSION_COOKIE_SECURE else 0
# Who comes by plain HTTP is sent to HTTPS by the proxy that speaks it; what other hosts speak is not ours to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]
BEHIND_PROXY = env_bool("BRIDGE_BEHIND_PROXY")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_PROXY else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": [CSP.SELF],
    # unfold's Alpine evaluates the expressions of its own templates, hence UNSAFE_EVAL; no inline script runs.
    "script-src": [CSP.SELF, CSP.NONCE, CSP.UNSAFE_EVAL],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF, "data:"],
    "connect-src": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.SELF],
}

#: The largest body of a Messages call, in bytes. Anthropic's own limit is 32 MB.
MAX_BODY_BYTES = env_int("BRIDGE_MAX_BODY_BYTES", 32 * 1024 * 1024)
#: Whoever runs `up` owns the machine; commands beside it may name upstreams on it too.
LOOPBACK = ["127.0.0.0/8", "::1/128", "localhost"]
ALLOW_PRIVATE_UPSTREAMS = env_list("BRIDGE_ALLOW_PRIVATE_UPSTREAMS") + (LOOPBACK if is_up(DATA_DIR) else [])
ENCRYPTION_KEYS = encryption_keys(DATA_DIR)
ENCRYPTION_KEYS_FILE = encryption_keys_file(DATA_DIR)
#: Who may read /metrics from elsewhere; without it only this machine may.
METRICS_TOKEN = env_secret("BRIDGE_METRICS_TOKEN")
#: How long a call may wait for a credential that rests or is full, in seconds; 0: it is told at once.
QUEUE_S = env_int("BRIDGE_QUEUE_S", 0)
QUEUE_MAX = env_int("BRIDGE_QUEUE_MAX", 100)
#: How long a call may wait for a summary of its history, in seconds, before old messages are left out without one.
SUMMARY_WAIT_S = env_int("BRIDGE_SUMMARY_WAIT_S", 10)
#: So many calls may run in one worker at once: all together, and those of one member.
CALLS_MAX = env_int("BRIDGE_CALLS_MAX", 2000)
CALLS_PER_MEMBER_MAX = env_int("BRIDGE_CALLS_PER_MEMBER_MAX", 500)
#: How long running calls may go on after a stop was asked for, in seconds.
DRAIN_S = env_int("BRIDGE_DRAIN_S", 60)
#: How long a server that was told to stop goes on taking calls while `/readyz` says 503, in seconds.
NOTICE_S = env_int("BRIDGE_NOTICE_S", 0)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "bridgeproject.scrub.ScrubbingFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env_str("BRIDGE_LOG_LEVEL", "WARNING")},
    # httpx logs request headers at DEBUG: credentials are among them.
    "loggers": {"httpx": {"level": "WARNING"}, "httpcore": {"level": "WARNING"}, "aiohttp": {"level": "WARNING"}},
}

UNFOLD = {
    "SITE_TITLE": "Bridge",
    "SITE_HEADER": "Bridge",
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/bridge/icon.svg"}],
    "DASHBOARD_CALLBACK": "usage.pages.dashboard.show",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "STYLES": ["/static/bridge/admin.css"],
    "SCRIPTS": ["/static/bridge/names.js"],
    "SIDEBAR": {"show_search": True, "navigation": "bridgeproject.navigation.navigation"},
}
