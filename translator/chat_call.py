"""`POST /v1/chat/completions`, passed on to an upstream of the same dialect."""

from collections.abc import Sequence
from functools import partial

import orjson

from keys.models import Dialect
from translator.calls import Goal, Prepared, kind_of
from translator.core.errors import UnsupportedFeature
from translator.core.exchange import Passed
from translator.core.openai_chat.adapt import Adaptation
from translator.core.openai_chat.errors import read_error
from translator.core.openai_chat.observe import ChatReader
from translator.core.openai_chat.passthrough import ChatRequest, render_chat_request

#: OpenAI's streams are kept alive by comments.
PING = b": keep-alive\n\n"
OTHER_DIALECT = "is served by an upstream of another dialect; ask for it through /v1/messages"


class ChatCall:
    """A parsed request of an OpenAI client."""

    #: Its messages are never compacted: they pass as they are.
    history = None

    def __init__(self, request: ChatRequest, *, size: int, session_id: str | None) -> None:
        self.request = request
        self.alias = request.model
        self.stream = request.stream
        self.estimate = request.input_estimate
        self.max_tokens = request.max_tokens
        self.session_id = session_id or request.session_id
        self.kind = kind_of(orjson.dumps(request.body["messages"][-1]))
        self.size = size

    def prepare(self, goal: Goal, _lessons: Sequence[Adaptation]) -> Prepared:
        if goal.upstream.dialect != Dialect.OPENAI_CHAT:
            raise UnsupportedFeature(path="model", reason=OTHER_DIALECT)
        reader = ChatReader(
            model=self.alias,
            input_estimate=self.estimate,
            max_tokens=self.max_tokens,
            hides_usage=self.stream and not self.request.wants_usage,
            secrets=goal.secrets,
        )
        return Prepared(
            url=goal.url("/chat/completions"),
            headers=goal.bearer_headers(),
            body=orjson.dumps(render_chat_request(self.request, model_name=goal.model_name)),
            exchange=Passed(reader, ping=PING),
            read_error=partial(read_error, requested_model=self.alias, secrets=goal.secrets),
        )
