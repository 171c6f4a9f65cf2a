"""An upstream's chat/completions answer, streamed or whole, to events.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-30). Fields not named here are
ignored. What upstreams do beyond the reference is shown by the tests, each quirk under its name.

Nothing is said of the end before the end: usage may come after the finish, so the stop reason waits for the
`[DONE]` mark or the end of the stream. A stream that ends without saying so fails: it never becomes a short answer.

An answer that the upstream cut short may be gone on with, in rounds: `wants_more` says so, and nothing is told of the end.
`resume` begins the next round, whose bytes go on with the same message; `give_up` ends it with what there is. What goes
wrong in a later round is an error of that round only.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from translator.core.answer import AnswerContext
from translator.core.errors import ClientError, UpstreamProtocolError
from translator.core.events import Event, MessageStart, Ping, StreamFailed, Usage, UsageSource
from translator.core.masking import header_value
from translator.core.openai_chat.chunk_reader import END_MARK, ChunkReader
from translator.core.openai_chat.content import Content
from translator.core.openai_chat.error_report import is_error
from translator.core.openai_chat.errors import embedded_error, protocol_error
from translator.core.openai_chat.finish import Finish, finish_named
from translator.core.openai_chat.usage import Report, merge_reports, read_report, settle_usage
from translator.core.openai_chat.whole import is_stream, read_whole
from translator.core.switches import Profile

__all__ = ["Decoder"]

#: With fewer output tokens left, the upstream isn't asked to go on: the whole input would be sent for them.
LEAST_LEFT = 64
TRUNCATED = "upstream closed the stream before finishing"
FINISH_ERRORS = {
    Finish.OVERLOADED: {"type": "overloaded", "message": "upstream ran out of capacity"},
    Finish.FAILED: {"type": "server_error", "message": "upstream failed to finish the answer"},
}


class Decoder:
    """Read one answer: `feed` and `finish` for a stream, `feed_whole` for a JSON answer."""

    def __init__(
        self, answer: AnswerContext, *, profile: Profile, new_id: Callable[[str], str], secrets: tuple[str, ...] = ()
    ) -> None:
        """Start before the first byte.

        Args:
            answer: What the answer depends on of the request.
            profile: The upstream's switches.
            new_id: Gives a unique id with the prefix it is called with.
            secrets: What must not appear in an error, whatever the upstream says.
        """
        #: Whether the last event is out: the rest of the upstream's stream does not matter.
        self.is_done = False
        #: Whether the upstream cut the answer short of what the client allows: `resume` or `give_up` must follow.
        self.wants_more = False
        #: What went wrong in a later round, of which the client is told nothing: `give_up` must follow.
        self.round_error: ClientError | None = None
        #: The upstream's own id of the answer, if it told one.
        self.upstream_id: str | None = None
        self._answer = answer
        self._is_lenient = profile.lenient_eof
        self._secrets = secrets
        self._chunks = ChunkReader()
        self._content = Content(answer, profile=profile, new_id=new_id)
        self._events: list[Event] = []
        self._is_started = False
        #: Whether the upstream has answered in this round.
        self._is_answered = False
        self._earlier: list[Usage] = []
        self._finish: Finish | None = None
        self._report: Report | None = None
        self._comments = 0
        self._final_usage = Usage()

    @property
    def is_finishing(self) -> bool:
        """Whether the upstream has said why it stopped: nothing but usage is missing, and it may never come."""
        return self._finish is not None

    @property
    def has_output(self) -> bool:
        """Whether anything was emitted that a client would show or run."""
        return self._content.has_output

    @property
    def usage(self) -> Usage:
        """What the answer has cost so far."""
        return self._usage(is_complete=False) if not self.is_done else self._final_usage

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired or dropped, as short codes."""
        return tuple(dict.fromkeys([*self._chunks.notes, *self._content.notes]))

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes, oldest first.

        Args:
            data: Any number of bytes of the upstream's stream; may end anywhere.
        """
        if self.is_done:
            return []
        self._read_chunks(self._chunks.feed(data))
        return self._take() or self._pings()

    def finish(self) -> list[Event]:
        """Return the last events, at the end of the upstream's stream or when it is no use to wait for it."""
        if not self.is_done:
            self._read_chunks(self._chunks.close())
        if not self.is_done:
            self._end_of_stream()
        return self._take()

    def feed_whole(self, body: bytes) -> list[Event]:
        """Return all events of an answer that came as one body; a body that is a stream is read as one."""
        if is_stream(body):
            return self.feed(body) + self.finish()
        try:
            answer = read_whole(body)
        except UpstreamProtocolError as error:
            self._fail(protocol_error(error.message))
            return self._take()
        self._content.tool_calls.is_whole = True
        self._read_chunk(answer)
        if not self.is_done:
            self._end_of_whole(answer)
        return self._take()

    def fail(self, error: ClientError) -> list[Event]:
        """Return the events that end the answer with an error found elsewhere, such as a timeout."""
        if not self.is_done or self._is_waiting:
            self._end_failed(error)
        return self._take()

    @property
    def text(self) -> str:
        """What the model has written so far, calls in its text included."""
        return self._content.text

    @property
    def tokens_left(self) -> int | None:
        """Output tokens that the message may still have; None where nothing limits them."""
        return self._left_after(self.usage)

    @property
    def _is_waiting(self) -> bool:
        return self.wants_more or self.round_error is not None

    def resume(self, *, secrets: tuple[str, ...] = ()) -> None:
        """Go on with the same message in a further answer.

        Args:
            secrets: More of what must not appear in an error.
        """
        input_estimate = self._answer.input_estimate + self.usage.output_tokens
        left = [limit for limit in (self._answer.max_tokens, self.tokens_left) if limit is not None]
        self._earlier.append(self.usage)
        self._answer = replace(self._answer, input_estimate=input_estimate, max_tokens=min(left, default=None))
        self._secrets = (*self._secrets, *secrets)
        self._chunks, self._comments = ChunkReader(), 0
        self._finish = self._report = self.upstream_id = None
        self._is_answered = self.is_done = self.wants_more = False
        self._content.resume()

    def give_up(self) -> list[Event]:
        """Return the events that end a message which can't be gone on with: with what there is, as out of tokens."""
        if not self.is_done:
            self._final_usage = self._usage(is_complete=False)
        self.wants_more, self.round_error, self.is_done = False, None, True
        self._content.finish(self._events, is_truncated=True)
        self._events += self._content.end(Finish.CUT, self._whole_usage)
        return self._take()

    def start(self) -> list[Event]:
        """Return the start of the message, if it was not started: the client is to hear something now."""
        if not self.is_done:
            self._start()
        return self._take()

    def _read_chunks(self, chunks: Iterable[dict[str, Any]]) -> None:
        try:
            for chunk in chunks:
                if chunk is END_MARK:
                    self._end()
                else:
                    self._read_chunk(chunk)
                if self.is_done:
                    break
        except UpstreamProtocolError as error:
            self._fail(protocol_error(error.message))

    def _read_chunk(self, chunk: dict[str, Any]) -> None:
        if error := chunk.get("error"):
            self._fail_upstream(error)
            return
        if self.upstream_id is None and "id" in chunk:
            self.upstream_id = header_value(chunk["id"], self._secrets)
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        elif "x_groq" in chunk:
            self._read_groq(chunk["x_groq"])
        choices = chunk.get("choices")
        if type(choices) is list and choices:
            choice = choices[0]
            if type(choice) is not dict or choice.get("index"):
                choice = next((other for other in choices if isinstance(other, dict) and not other.get("index")), None)
            if choice is not None:
                self._read_choice(choice)
        elif is_error(chunk):
            self._fail_upstream(chunk)

    def _read_choice(self, choice: dict[str, Any]) -> None:
        if error := choice.get("error"):
            self._fail_upstream(error)
            return
        if not self._is_answered:
            self._start()
        # A message after deltas is MiniMax's sum of them.
        delta = choice.get("delta") or (None if self._content.output_estimate else choice.get("message"))
        if type(delta) is dict:
            self._content.read(delta, self._events)
        elif isinstance(text := choice.get("text"), str):
            self._content.read({"content": text}, self._events)
        if finish := choice.get("finish_reason"):
            self._read_finish(choice, str(finish))
        if self._content.must_end and not self.is_done:
            self._end()

    def _read_finish(self, choice: dict[str, Any], word: str) -> None:
        finish = finish_named(word)
        if finish in FINISH_ERRORS:
            self._fail_upstream(FINISH_ERRORS[finish])
            return
        # A second finish says less than the first, unless the first said nothing.
        if self._finish in (None, Finish.OTHER):
            self._finish = finish
        for key in ("stop_reason", "matched_stop"):
            self._content.note_stop(choice.get(key))
        # Kimi's place for it.
        self._read_usage(choice.get("usage"))

    def _read_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._report = merge_reports(self._report, read_report(usage))

    def _read_groq(self, x_groq: Any) -> None:
        match x_groq:
            case {"error": error} if error:
                self._fail_upstream(error)
            case {"usage": usage}:
                self._read_usage(usage)

    def _start(self) -> None:
        self._is_answered = True
        if not self._is_started:
            self._is_started = True
            has_input = self._report is not None and self._report.input
            self._events.append(MessageStart(usage=self._usage(is_complete=False) if has_input else None))

    def _end_of_stream(self) -> None:
        if self._finish is not None or self._content.is_cut or (self._is_lenient and self.has_output):
            self._end()
        elif self._is_answered:
            self._fail(protocol_error(TRUNCATED))
        else:
            self._fail(protocol_error("upstream closed the stream without an answer"))

    def _end_of_whole(self, answer: dict[str, Any]) -> None:
        if self._is_answered:
            self._end()
        elif answer.get("message") or is_error(answer):
            self._fail_upstream(answer)
        else:
            self._fail(protocol_error("upstream returned no choices"))

    def _end(self) -> None:
        """Write the end of the message."""
        if not self._is_answered:
            self._fail(protocol_error("upstream returned no choices"))
            return
        if self._can_go_on():
            self._pause()
            return
        is_truncated = self._finish is Finish.CUT or self._is_out_of_tokens
        problem = self._content.finish(self._events, is_truncated=is_truncated)
        if problem is None and self._finish is None and self._has_nothing:
            problem = TRUNCATED
        if problem is not None:
            self._fail(protocol_error(problem))
            return
        is_cut = self._content.has_cut_call or self._adds_nothing
        self._final_usage = self._usage(is_complete=True)
        self.is_done = True
        self._events += self._content.end(Finish.CUT if is_cut else self._finish, self._whole_usage)

    def _can_go_on(self) -> bool:
        """Tell whether the upstream cut the answer short, and can be asked for more."""
        if self._finish is not Finish.CUT or len(self._earlier) >= self._answer.continue_rounds:
            return False
        self._content.pause(self._events)
        left = self._left_after(self._usage(is_complete=True))
        return self._content.can_go_on and (left is None or left >= LEAST_LEFT)

    def _left_after(self, usage: Usage) -> int | None:
        """Return the output tokens that the message may have after a last round so far; None for any number."""
        limit = self._answer.message_limit
        return None if limit is None else limit - sum(each.output_tokens for each in (*self._earlier, usage))

    @property
    def _whole_usage(self) -> Usage:
        """What the client is told: the input once, as it is in the client's own request; the output of all rounds."""
        rounds = [*self._earlier, self.usage]
        thinking = [usage.thinking_tokens for usage in rounds if usage.thinking_tokens is not None]
        return replace(
            rounds[0],
            output_tokens=sum(usage.output_tokens for usage in rounds),
            thinking_tokens=sum(thinking) if thinking else None,
        )

    def _pause(self) -> None:
        self._final_usage = self._usage(is_complete=True)
        self.is_done = self.wants_more = True

    @property
    def _adds_nothing(self) -> bool:
        """Whether a later round brought nothing, so that the answer is still cut where the one before ended."""
        return bool(self._earlier) and not self._content.has_grown

    @property
    def _has_nothing(self) -> bool:
        """Whether a stream brought nothing at all."""
        return not (self.has_output or self._content.is_cut or self._content.tool_calls.is_whole)

    @property
    def _is_out_of_tokens(self) -> bool:
        """Whether the counts say that the answer was cut, whatever the upstream's word is."""
        limit = self._answer.max_tokens
        return bool(limit and self._report and (self._report.output or 0) >= limit)

    def _usage(self, *, is_complete: bool) -> Usage:
        if not self._is_answered and self._report is None:
            return Usage(source=UsageSource.UNKNOWN)
        return settle_usage(
            self._report,
            input_estimate=self._answer.input_estimate,
            output_estimate=self._content.output_estimate,
            max_tokens=self._answer.max_tokens,
            is_complete=is_complete,
        )

    def _fail_upstream(self, error: Any) -> None:
        self._fail(embedded_error(error, requested_model=self._answer.model, secrets=self._secrets))

    def _fail(self, error: ClientError) -> None:
        """End with what went wrong in the answer; after good rounds, only this round."""
        if not self._earlier:
            self._end_failed(error)
            return
        self._final_usage = self._usage(is_complete=False)
        self.round_error = error
        self.is_done = True

    def _end_failed(self, error: ClientError) -> None:
        self._content.flush(self._events)
        self._final_usage = self._usage(is_complete=False)
        self._events.append(StreamFailed(error=error))
        self.wants_more, self.round_error = False, None
        self.is_done = True

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _pings(self) -> list[Event]:
        """Return a sign of life for the client, where the upstream gave one and nothing else."""
        has_new = self._chunks.comments > self._comments
        self._comments = self._chunks.comments
        return [Ping()] if has_new and self._is_started else []
