"""What to do about a request that was turned away, in words for its member."""

from collections.abc import Callable
from dataclasses import dataclass

from keys.models import ClientToken, Route, TokenRefusal

#: So many names are offered.
NAMES_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was wrong, and what helps."""

    wrong: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A refusal of a token, and the address that clients should call."""

    refusal: TokenRefusal
    token: ClientToken
    base_url: str


def advise(case: Case) -> Advice:
    """Say what was wrong with a request and what helps; the first rule that fits decides."""
    return next(advice for fits, advice in RULES if fits(case.refusal))(case)


def _ended(case: Case) -> Advice:
    if case.token.revoked_at is not None:
        return Advice(wrong="This token was revoked.", fix="Issue a new one, and put it in the client's place.")
    return Advice(
        wrong=f"This token expired on {case.token.expires_at:%Y-%m-%d at %H:%M} UTC.",
        fix="Issue a new one, and put it in the client's place.",
    )


def _wrong_path(case: Case) -> Advice:
    wrong = f"The client called {case.refusal.method} {case.refusal.path}, and nothing is there."
    if case.refusal.path.startswith("/v1/v1/"):
        return Advice(wrong=wrong, fix=f"Leave /v1 out of the client's base URL: it is {case.base_url}.")
    return Advice(
        wrong=wrong, fix=f"Set the client's base URL to {case.base_url} (OpenAI clients: {case.base_url}/v1)."
    )


def _no_route(case: Case) -> Advice:
    names = list(Route.objects.filter(enabled=True).order_by("alias").values_list("alias", flat=True)[:NAMES_MAX])
    known = f"Names that are routed: {', '.join(names)}." if names else "No name is routed yet."
    return Advice(
        wrong="No route takes the model that the client asked for.",
        fix=f"Choose another model in the client, or ask an administrator for a route. {known}",
    )


def _forbidden_model(case: Case) -> Advice:
    return Advice(
        wrong="This token may not use the model that the client asked for.",
        fix=f"It may use: {', '.join(case.token.scopes[:NAMES_MAX])}. Choose one of these, or take another token.",
    )


def _forbidden_place(case: Case) -> Advice:
    return Advice(
        wrong=f"The request came from an address that this token may not be used from ({case.refusal.message}).",
        fix=f"It may be used from: {', '.join(case.token.networks[:NAMES_MAX])}. Call from there, or ask an administrator.",
    )


def _two_tokens(case: Case) -> Advice:
    return Advice(
        wrong="The client sent two different tokens of Bridge.",
        fix="Set one of ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY, and unset the other.",
    )


def _rate_limited(case: Case) -> Advice:
    limits = (
        (case.token.rpm, "requests a minute"),
        (case.token.tpm, "tokens a minute"),
        (case.token.concurrency, "at once"),
    )
    shown = ", ".join(f"{number:,} {unit}" for number, unit in limits if number is not None)
    return Advice(
        wrong=f"A limit of this token was reached{f': it allows {shown}' if shown else ''}.",
        fix="Wait a minute, or ask an administrator for a higher limit.",
    )


def _says(wrong: str, fix: str) -> Callable[[Case], Advice]:
    return lambda case: Advice(wrong=wrong, fix=fix)


def _is(status: int, *words: str) -> Callable[[TokenRefusal], bool]:
    """Fit a status, and a message that holds one of the words if there are any."""
    return lambda refusal: refusal.status == status and (not words or any(word in refusal.message for word in words))


#: What a refusal looks like -> what to say of it.
RULES: tuple[tuple[Callable[[TokenRefusal], bool], Callable[[Case], Advice]], ...] = (
    (_is(401), _ended),
    (_is(400, "two different tokens"), _two_tokens),
    (
        _is(400, "prompt is too long"),
        _says(
            "The conversation is longer than the model can take.",
            "Nothing is wrong with your set-up. Claude Code shortens its history by itself on this answer; elsewhere begin anew.",
        ),
    ),
    (
        _is(400, "compressed request bodies"),
        _says("The client compressed its request.", "Turn compression of requests off in the client."),
    ),
    (
        _is(400),
        _says(
            "The client sent something that can't be understood; the message names the place.",
            "If you wrote the request, mend it there. If a program did, look for a newer version, and show an administrator the message.",
        ),
    ),
    (
        _is(402, "running calls hold"),
        _says(
            "Calls that are running hold what is left of a budget: each holds the most that it may need.",
            "Try again when one of them is over, or run fewer at once. A smaller max_tokens holds less.",
        ),
    ),
    (
        _is(402, "a smaller max_tokens"),
        _says(
            "A budget that this token draws on has less left than the request may need.",
            "Ask for fewer tokens, with a smaller max_tokens (in Claude Code CLAUDE_CODE_MAX_OUTPUT_TOKENS), take a cheaper model, or wait until the budget starts anew.",
        ),
    ),
    (
        _is(402),
        _says(
            "A budget that this token draws on is spent.",
            "Wait until it starts anew, or ask whoever leads your team or administers Bridge for more. What is left stands under My usage.",
        ),
    ),
    (_is(403, "may not use the model"), _forbidden_model),
    (_is(403, "may not be used from"), _forbidden_place),
    (
        _is(403),
        _says(
            "This token may not be used like that.",
            "Do what the message asks for, or ask an administrator to allow it for this token.",
        ),
    ),
    (_is(404, "there is nothing at"), _wrong_path),
    (_is(405), _wrong_path),
    (_is(404), _no_route),
    (
        _is(408),
        _says(
            "The request did not arrive in time.",
            "Look at the connection between the client and Bridge, and try again.",
        ),
    ),
    (
        lambda refusal: refusal.status in (409, 422),
        _says(
            "The client sent an Idempotency-Key that was used before.",
            "Send each new request with a key of its own, or none.",
        ),
    ),
    (
        _is(413),
        _says("The request is too large.", "Send less, or ask an administrator to raise BRIDGE_MAX_BODY_BYTES."),
    ),
    (_is(429, "this token's limit"), _rate_limited),
    (
        lambda refusal: refusal.status in (429, 503, 529),
        _says(
            "Your set-up is right, but Bridge could not serve the request at that moment.",
            "Try again in a minute. If it stays so, show an administrator the message.",
        ),
    ),
    (
        lambda refusal: True,
        _says("Bridge failed at this request.", "Show an administrator the message and the request's id."),
    ),
)
