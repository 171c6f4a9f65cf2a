"""A Messages stream or message from an upstream that speaks the dialect itself: read, and passed on unchanged.

Nothing is translated. What is read is what accounting and routing need: usage, why it ended, whether it failed. A stream
that is cut gets an error event at its end, since the official Python SDK takes a cut one for a whole. An error of the
upstream is the one event told in the gateway's words.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-30).
"""

from typing import Any

import orjson

from translator.core.anthropic.errors import render_error
from translator.core.complete_frames import CompleteFrames
from translator.core.errors import ClientError, UpstreamProtocolError
from translator.core.events import Usage, UsageSource
from translator.core.loose_json import loads
from translator.core.masking import header_value
from translator.core.openai_chat.errors import embedded_error, protocol_error
from translator.core.openai_chat.usage import OTHER_TIERS, SERVICE_TIER, estimate_output, token_count
from translator.core.openai_chat.whole import is_stream
from translator.core.sse import SSEFrame

__all__ = ["MessageReader"]

TRUNCATED = "upstream closed the stream before finishing"
#: Keys under which a delta carries what a client shows or runs.
DELTA_KEYS = ("text", "thinking", "partial_json")
#: Counts that together are the whole input.
INPUT_KEYS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
#: Under `cache_creation`: what was written for an hour, and for minutes.
HOUR_KEY, MINUTES_KEY = "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"


class MessageReader:
    """Read one answer while it passes."""

    def __init__(self, *, request_id: str, model: str, input_estimate: int, secrets: tuple[str, ...] = ()) -> None:
        """Start before the first byte.

        Args:
            request_id: Id of the request, told with an error of ours.
            model: Model as the client named it.
            input_estimate: Input tokens by our own count, for an answer that ends before the upstream's.
            secrets: What must not appear in `error`.
        """
        #: Whether the message is complete, or has failed.
        self.is_done = False
        #: Whether anything came that a client would show or run.
        self.has_output = False
        #: Why it ended, in the upstream's word; None while it has not.
        self.stop_reason: str | None = None
        #: What went wrong, in the client's words, or None.
        self.error: ClientError | None = None
        #: The upstream's own id of the message, if it told one.
        self.upstream_id: str | None = None
        #: What was odd, as short codes.
        self.notes: tuple[str, ...] = ()
        self._request_id = request_id
        self._model = model
        self._input_estimate = input_estimate
        self._secrets = secrets
        self._frames = CompleteFrames()
        self._counts: dict[str, int] = {}
        self._thinking: int | None = None
        self._has_final_usage = False
        self._characters = 0

    @property
    def is_finishing(self) -> bool:
        """Whether the upstream has said why it stopped: only the end mark is missing."""
        return self.stop_reason is not None

    @property
    def usage(self) -> Usage:
        """What the answer has cost so far."""
        estimate = estimate_output(self._characters)
        if not self._counts:
            source = UsageSource.ESTIMATED if self.has_output else UsageSource.UNKNOWN
            return Usage(
                input_tokens=self._input_estimate if self.has_output else 0,
                output_tokens=estimate,
                source=source,
                notes=self.notes,
            )
        input_, read, written = (self._counts.get(key, 0) for key in INPUT_KEYS)
        output = self._counts.get("output_tokens", 0)
        # No input is empty, and neither is the output of an answer that says something: such zeros are no counts.
        has_input = input_ + read + written > 0
        has_output = self._has_final_usage and (output > 0 or estimate == 0)
        return Usage(
            input_tokens=input_ if has_input else self._input_estimate,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(written, self._counts.get(HOUR_KEY, 0)),
            output_tokens=output if has_output else max(output, estimate),
            thinking_tokens=self._thinking,
            source=UsageSource.UPSTREAM if has_input and has_output else UsageSource.PARTIAL,
            notes=self.notes,
        )

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client: the upstream's own, in whole frames."""
        if self.is_done:
            return b""
        try:
            complete, frames = self._frames.feed(data)
        except UpstreamProtocolError as error:
            return self._fail(protocol_error(error.message))
        return self._passed(complete, frames)

    def finish(self) -> bytes:
        """Return the last bytes, at the end of the upstream's stream: an error event if the message is not complete."""
        if self.is_done:
            return b""
        rest = self._passed(*self._frames.close())
        return rest if self._is_over() else rest + self._fail(protocol_error(TRUNCATED))

    def fail(self, error: ClientError) -> bytes:
        """Return the bytes that end the stream with an error found elsewhere, such as a timeout."""
        return b"" if self.is_done else self._fail(error)

    def feed_body(self, body: bytes) -> bytes:
        """Read a body where a stream was asked for: nobody makes one of it, but what it says of an error is read."""
        if is_stream(body):
            return self.feed(body) + self.finish()
        self.read_whole(body)
        return self._fail(self.error or protocol_error("upstream returned no stream"))

    def read_whole(self, body: bytes) -> bytes:
        """Read an answer that came as one body; return it, to be passed on as it is unless `error` is set."""
        self.is_done = True
        try:
            message = loads(body)
        except ValueError:
            message = None
        match message:
            case {"type": "error", "error": error}:
                self.error = embedded_error(error, requested_model=self._model, secrets=self._secrets)
            case {"type": "message", "content": list(content)}:
                self.has_output = bool(content)
                self.upstream_id = header_value(message.get("id"), self._secrets)
                self._read_delta(message, message)
            case _:
                self.error = protocol_error("upstream returned no message")
        return body

    def _passed(self, data: bytes, frames: list[SSEFrame]) -> bytes:
        """Return the bytes of the frames as they are; of an error, in the gateway's words: it may echo secrets."""
        passed: list[SSEFrame] = []
        for frame in frames:
            self._read_frame(frame)
            if self.error is not None:
                return b"".join(map(_render, passed)) + self._fail(self.error)
            passed.append(frame)
        return data

    def _is_over(self) -> bool:
        return self.is_done

    def _read_frame(self, frame: SSEFrame) -> None:
        try:
            data = orjson.loads(frame.data)
        except orjson.JSONDecodeError:
            return
        match data:
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._read_content(delta)
            case {"type": "content_block_start"}:
                self.has_output = True
            case {"type": "message_start", "message": dict(message)}:
                self.upstream_id = header_value(message.get("id"), self._secrets)
                self._read_usage(message.get("usage"))
            case {"type": "message_delta", "delta": dict(delta)}:
                self._read_delta(delta, data)
            case {"type": "message_stop"}:
                self.is_done = True
            case {"type": "error", "error": error}:
                self.error = embedded_error(error, requested_model=self._model, secrets=self._secrets)

    def _read_content(self, delta: dict[str, Any]) -> None:
        self.has_output = True
        for key in DELTA_KEYS:
            if isinstance(text := delta.get(key), str):
                self._characters += len(text)

    def _read_delta(self, delta: dict[str, Any], data: dict[str, Any]) -> None:
        if isinstance(reason := delta.get("stop_reason"), str):
            self.stop_reason = reason
        self._has_final_usage = self._read_usage(data.get("usage")) or self._has_final_usage

    def _read_usage(self, usage: Any) -> bool:
        """Keep the counts of a `usage` object, which are running totals; False when there is none of the output.

        Some upstreams count the input at the start and others at the end, with zeros at the other place: a total is
        never taken back to nothing.
        """
        if not isinstance(usage, dict):
            return False
        notes: list[str] = []
        told = {
            key: count for key in (*INPUT_KEYS, "output_tokens") if (count := _count(usage, key, notes)) is not None
        }
        if isinstance(split := usage.get("cache_creation"), dict):
            told[HOUR_KEY] = _count(split, HOUR_KEY, notes) or 0
            written = told[HOUR_KEY] + (_count(split, MINUTES_KEY, notes) or 0)
            told["cache_creation_input_tokens"] = told.get("cache_creation_input_tokens") or written
        counts_input = any(told.get(key) for key in INPUT_KEYS)
        for key, tokens in told.items():
            if tokens or key not in self._counts or (counts_input and key != "output_tokens"):
                self._counts[key] = tokens
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": int(thinking)}:
                self._thinking = token_count(thinking, notes)
        if usage.get("service_tier") in OTHER_TIERS:
            notes.append(SERVICE_TIER)
        if isinstance(used := usage.get("server_tool_use"), dict) and any(used.values()):
            notes.append("server_tool_use")
        self.notes = tuple(dict.fromkeys([*self.notes, *notes]))
        return "output_tokens" in self._counts

    def _fail(self, error: ClientError) -> bytes:
        self.error = error
        self.is_done = True
        return b"event: error\ndata: %b\n\n" % orjson.dumps(render_error(error, self._request_id))


def _count(usage: dict[str, Any], key: str, notes: list[str]) -> int | None:
    return None if usage.get(key) is None else token_count(usage[key], notes)


def _render(frame: SSEFrame) -> bytes:
    name = b"event: %b\n" % frame.event.encode() if frame.event else b""
    return name + b"data: %b\n\n" % frame.data.replace(b"\n", b"\ndata: ")
