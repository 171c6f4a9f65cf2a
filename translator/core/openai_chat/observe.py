"""A chat/completions stream or answer for a client of that dialect: read, and passed on.

Nothing is translated; only a body in place of a stream, or a stream in place of a body, is put into the shape that was
asked for. What is read is what accounting and routing need: usage, why it ended, whether it failed. A stream that is cut
gets an error frame at its end, which OpenAI's SDKs raise. An error of the upstream is told in the gateway's words.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-30).
"""

from collections.abc import Callable
from typing import Any

import orjson

from translator.core.complete_frames import CompleteFrames
from translator.core.errors import ClientError, UpstreamProtocolError
from translator.core.events import Usage, UsageSource
from translator.core.loose_json import loads, mend_all
from translator.core.masking import header_value
from translator.core.openai_chat.errors import embedded_error, protocol_error, render_error
from translator.core.openai_chat.reasoning import reasoning_text
from translator.core.openai_chat.reshape import as_answer, as_stream
from translator.core.openai_chat.usage import (
    OTHER_TIERS,
    SERVICE_TIER,
    Report,
    estimate_output,
    merge_reports,
    read_report,
    settle_usage,
)
from translator.core.openai_chat.whole import is_stream
from translator.core.sse import DONE, SSEDecoder, SSEFrame

__all__ = ["ChatReader"]

TRUNCATED = "upstream closed the stream before finishing"
MALFORMED = "upstream sent malformed data"


class ChatReader:
    """Read one answer while it passes."""

    def __init__(
        self,
        *,
        model: str,
        input_estimate: int,
        max_tokens: int | None = None,
        hides_usage: bool = False,
        secrets: tuple[str, ...] = (),
    ) -> None:
        """Start before the first byte.

        Args:
            model: Model as the client named it.
            input_estimate: Input tokens by our own count, for upstreams that do not count.
            max_tokens: The client's limit of output tokens, or None.
            hides_usage: Whether the client did not ask for the usage chunk, which has no choices: some break on it.
            secrets: What must not appear in `error`.
        """
        #: Whether the answer is complete, or has failed.
        self.is_done = False
        #: Whether anything came that a client would show or run.
        self.has_output = False
        #: Why it ended, in the upstream's word; None while it has not.
        self.stop_reason: str | None = None
        #: What went wrong, in the client's words, or None.
        self.error: ClientError | None = None
        #: The upstream's own id of the answer, if it told one.
        self.upstream_id: str | None = None
        self._model = model
        self._input_estimate = input_estimate
        self._max_tokens = max_tokens
        self._hides_usage = hides_usage
        self._secrets = secrets
        self._frames = CompleteFrames()
        self._report: Report | None = None
        self._characters = 0
        self._is_other_tier = False

    @property
    def is_finishing(self) -> bool:
        """Whether the upstream has said why it stopped: nothing but usage is missing, and it may never come."""
        return self.stop_reason is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was odd, as short codes."""
        return (*self.usage.notes, *((SERVICE_TIER,) if self._is_other_tier else ()))

    @property
    def usage(self) -> Usage:
        """What the answer has cost so far."""
        if self._report is None and not self.has_output:
            return Usage(source=UsageSource.UNKNOWN)
        return settle_usage(
            self._report,
            input_estimate=self._input_estimate,
            output_estimate=estimate_output(self._characters),
            max_tokens=self._max_tokens,
            is_complete=self.is_done and self.error is None,
        )

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client: the upstream's own, in whole frames."""
        if self.is_done:
            return b""
        try:
            complete, frames = self._frames.feed(data)
        except UpstreamProtocolError as error:
            return self._fail(protocol_error(error.message))
        return self._shown(complete, frames)

    def finish(self) -> bytes:
        """Return the last bytes, at the end of the upstream's stream: an error frame if the answer is not complete."""
        if self.is_done:
            return b""
        rest = self._shown(*self._frames.close())
        if self._is_cut():
            return rest + self._fail(protocol_error(TRUNCATED))
        self.is_done = True
        return rest

    def fail(self, error: ClientError) -> bytes:
        """Return the bytes that end the stream with an error found elsewhere, such as a timeout."""
        return b"" if self.is_done else self._fail(error)

    def feed_body(self, body: bytes) -> bytes:
        """Read an answer that came as one body where a stream was asked for; return it as one."""
        if is_stream(body):
            return self.feed(body) + self.finish()
        answer = _read_object(body)
        self._read_answer(answer)
        stream = b"" if self.error else self._reshaped(as_stream, answer, shows_usage=not self._hides_usage)
        return self._fail(self.error) if self.error else stream

    def read_whole(self, body: bytes) -> bytes:
        """Read an answer that came as one body; return it as it is, or put together where it is a stream.

        What is returned is meaningless when `error` is set.
        """
        if not is_stream(body):
            self._read_answer(_read_object(body))
            return body
        frames = SSEDecoder()
        try:
            datas = [frame.data for frame in (*frames.feed(body), *frames.close())]
        except UpstreamProtocolError as error:
            datas, self.error = [], protocol_error(error.message)
        chunks = [chunk for data in datas if (chunk := _read_object(data))]
        for chunk in chunks:
            self._read_chunk(chunk)
        if self._is_cut() and not any(data.strip() == DONE for data in datas):
            self.error = self.error or protocol_error(TRUNCATED)
        self.is_done = True
        return self._reshaped(as_answer, chunks)

    def _reshaped(self, reshape: Callable[..., bytes], said: Any, **options: Any) -> bytes:
        """Return what `reshape` makes of what was said; nothing, and an error, where no client could read that."""
        try:
            return reshape(mend_all(said), **options)
        except (ValueError, TypeError):  # nested too deep
            self.error = self.error or protocol_error(MALFORMED)
            return b""

    def _read_answer(self, answer: dict[str, Any]) -> None:
        self._read_chunk(answer)
        if self.stop_reason is None and not self.has_output and self.error is None:
            self.error = protocol_error("upstream returned no choices")
        self.is_done = True

    def _is_cut(self) -> bool:
        return self.stop_reason is None and not self.is_done

    def _shown(self, data: bytes, frames: list[SSEFrame]) -> bytes:
        """Return the bytes of the frames that the client sees; an error in the gateway's words, without secrets."""
        shown: list[SSEFrame] = []
        for frame in frames:
            if self._read_frame(frame):
                shown.append(frame)
            if self.error is not None:
                return b"".join(map(_render, shown)) + self._fail(self.error)
        return data if len(shown) == len(frames) else b"".join(map(_render, shown))

    def _read_frame(self, frame: SSEFrame) -> bool:
        """Read a frame; False when the client is not to see it."""
        try:
            chunk = orjson.loads(frame.data)
        except orjson.JSONDecodeError:
            self.is_done = self.is_done or frame.data.strip() == DONE
            return True
        if not isinstance(chunk, dict):
            return True
        self._read_chunk(chunk)
        return self.error is None and not (self._hides_usage and chunk.get("usage") and not chunk.get("choices"))

    def _read_chunk(self, chunk: dict[str, Any]) -> None:
        if error := chunk.get("error"):
            self.error = embedded_error(error, requested_model=self._model, secrets=self._secrets)
        if self.upstream_id is None:
            self.upstream_id = header_value(chunk.get("id"), self._secrets)
        self._is_other_tier = self._is_other_tier or chunk.get("service_tier") in OTHER_TIERS
        groq = chunk.get("x_groq")
        usage = chunk.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
        self._read_usage(usage)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                self._read_choice(choice)

    def _read_choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._read_delta(delta)
        if isinstance(reason := choice.get("finish_reason"), str):
            self.stop_reason = reason
        self._read_usage(choice.get("usage"))

    def _read_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._report = merge_reports(self._report, read_report(usage))

    def _read_delta(self, delta: dict[str, Any]) -> None:
        text = delta.get("content")
        self._characters += len(reasoning_text(delta)) + (len(text) if isinstance(text, str | list) else 0)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            match call:
                case {"function": {"arguments": str(arguments)}}:
                    self._characters += len(arguments)
        self.has_output = self.has_output or bool(text or calls or self._characters)

    def _fail(self, error: ClientError) -> bytes:
        self.error = error
        self.is_done = True
        return b"data: %b\n\n" % orjson.dumps(render_error(error))


def _read_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that `data` holds; an empty one when it holds none."""
    try:
        value = loads(data.strip())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _render(frame: SSEFrame) -> bytes:
    return b"data: %b\n\n" % frame.data.replace(b"\n", b"\ndata: ")
