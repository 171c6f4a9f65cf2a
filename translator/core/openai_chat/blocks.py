"""Content blocks to the parts of a chat message.

Every block type is either said in parts, said in words, or left out; none is an error, except files that only
Anthropic's servers hold. Types not known here are read for their `text` and otherwise left out.

Source: `anthropic` 2.14.0 `types/*_block_param.py`, `openai` 3.57.0 `types/chat/*content_part*` (2026-11-30).
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from translator.core.errors import UnsupportedFeature
from translator.core.facts import ModelFacts
from translator.core.switches import Profile

__all__ = ["NO_IMAGES", "Reader", "joined_text", "server_result_texts", "text_part"]

type Part = dict[str, Any]

NO_IMAGES = "[image omitted: this model does not accept images]"
NO_IMAGE_ADDRESSES = "[image omitted: this upstream does not accept image addresses]"
UNREADABLE_IMAGE = "[image omitted: its source is of an unknown kind]"
NO_PDF = "[document omitted: this model does not accept PDF files]"
UNREADABLE_DOCUMENT = "[document omitted: its source is of an unknown kind]"

#: Addresses an upstream may be asked to read; `file:` and the like would be read on the upstream's machine.
IMAGE_SCHEMES = ("https://", "http://", "data:image/")

#: What of a server tool's result is for the model; all else (`encrypted_content`, ids) is not.
SERVER_RESULT_TEXTS = ("text", "stdout", "stderr", "error_code", "tool_name")


def text_part(text: str) -> Part:
    """Return a text part."""
    return {"type": "text", "text": text}


def joined_text(parts: list[Part], separator: str = "\n\n") -> str:
    """Return the texts of parts as one string; media are not in it."""
    return separator.join(part["text"] for part in parts if part["type"] == "text")


@dataclass(slots=True)
class Reader:
    """Reads blocks for one upstream model, and notes what it could not keep."""

    vision: bool
    image_urls: bool
    pdf: bool
    #: Short codes of what was left out or repaired.
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, profile: Profile, model: ModelFacts) -> "Reader":
        """Return the reader for a model: what is known of the model, else what its upstream usually takes."""
        return cls(
            vision=profile.vision if model.vision is None else model.vision,
            image_urls=profile.image_urls,
            pdf=profile.pdf if model.pdf is None else model.pdf,
        )

    def parts(self, content: Any, path: str) -> list[Part]:
        """Return the parts of a content, in its order.

        Args:
            content: A string, a list of blocks, or None.
            path: Where the content stands in the request, for errors.
        """
        if isinstance(content, str):
            return [text_part(content)] if content.strip() else []
        return [part for index, block in enumerate(content or ()) for part in self.block(block, f"{path}.{index}")]

    def block(self, block: Mapping[str, Any], path: str) -> Iterator[Part]:
        """Yield the parts of one block."""
        match block:
            case {"type": "image"}:
                yield self._image(block["source"], path)
            case {"type": "document"}:
                yield from self._document(block, path)
            case {"type": "search_result"}:
                yield from self.parts(self._search_result(block, path), path)
            case {"type": "tool_reference", "tool_name": str(name)}:
                yield text_part(f"Tool loaded: {name}")
            case {"type": "browser_state"}:
                state = {key: value for key, value in block.items() if key not in ("type", "cache_control")}
                yield text_part(orjson.dumps(state).decode())
            case {"type": "compaction", "content": str(summary)} if summary:
                yield text_part(f"Summary of the earlier conversation:\n{summary}")
            case {"text": str(text)} if text.strip():
                yield text_part(text)
            case {"type": "text" | "thinking" | "redacted_thinking" | "compaction"}:
                pass
            case _:
                self.notes.append("block_dropped")

    def _image(self, source: Mapping[str, Any], path: str) -> Part:
        match source:
            case {"type": "file"}:
                raise UnsupportedFeature(path=f"{path}.source", reason="file sources are not supported by this gateway")
            case _ if not self.vision:
                return self._omitted(NO_IMAGES)
            case {"type": "base64"}:
                return _image_part(_data_address(source))
            case {"type": "url", "url": str(url)} if url.startswith(IMAGE_SCHEMES):
                is_sent = self.image_urls or url.startswith("data:")
                return _image_part(url) if is_sent else self._omitted(NO_IMAGE_ADDRESSES)
            case _:
                return self._omitted(UNREADABLE_IMAGE)

    def _document(self, block: Mapping[str, Any], path: str) -> Iterator[Part]:
        source = block["source"]
        match source["type"]:
            case "text":
                yield text_part(_wrapped(block, source["data"]))
            case "content":
                parts = self.parts(source["content"], f"{path}.source.content")
                yield text_part(_wrapped(block, joined_text(parts)))
                yield from (part for part in parts if part["type"] != "text")
            case "base64" if self.pdf and source["media_type"] == "application/pdf":
                yield _file_part(block.get("title") or "document.pdf", source["data"])
            case "base64" if source["media_type"] == "application/pdf":
                yield self._omitted(NO_PDF, block)
            case "base64" if source["media_type"].startswith("text/") and (text := _decoded(source["data"])):
                yield text_part(_wrapped(block, text))
            case "url" | "file" as kind:
                reason = f"{kind} sources are not supported by this gateway"
                raise UnsupportedFeature(path=f"{path}.source", reason=reason)
            case _:
                yield self._omitted(UNREADABLE_DOCUMENT, block)

    def _search_result(self, block: Mapping[str, Any], path: str) -> str:
        heading = [block.get("title"), block.get("source")]
        body = joined_text(self.parts(block["content"], f"{path}.content"), "\n")
        return "\n".join(line for line in (*heading, body) if line)

    def _omitted(self, text: str, document: Mapping[str, Any] | None = None) -> Part:
        self.notes.append("media_omitted")
        return text_part(_wrapped(document, text) if document and document.get("title") else text)


def _wrapped(document: Mapping[str, Any], text: str) -> str:
    title, context = document.get("title"), document.get("context")
    opening = f'<document title="{title}">' if title else "<document>"
    return "\n".join(line for line in (opening, context, text, "</document>") if line)


def _data_address(source: Mapping[str, Any]) -> str:
    """Return base64 as an address; some clients send lines of it, or an address already."""
    data = "".join(source["data"].split()) if "\n" in source["data"] else source["data"]
    return data if data.startswith("data:image/") else f"data:{source['media_type']};base64,{data}"


def _decoded(data: str) -> str:
    """Return the text in base64; empty when it holds none."""
    try:
        return b64decode(data + "==").decode(errors="replace")
    except ValueError:
        return ""


def _image_part(url: str) -> Part:
    return {"type": "image_url", "image_url": {"url": url}}


def _file_part(name: str, data: str) -> Part:
    return {"type": "file", "file": {"filename": name, "file_data": f"data:application/pdf;base64,{data}"}}


def server_result_texts(block: Mapping[str, Any]) -> list[str]:
    """Return what the result of a server tool told the model, as one text; none when it told nothing."""
    lines = "\n".join(_result_lines(block.get("content"))).strip()
    return [lines] if lines else []


def _result_lines(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _result_lines(item)
        case {"title": str(title), "url": str(url)}:
            yield f"{title} - {url}"
        case dict():
            yield from (value[key] for key in SERVER_RESULT_TEXTS if value.get(key) and isinstance(value[key], str))
            for item in value.values():
                if isinstance(item, dict | list):
                    yield from _result_lines(item)
        case _:
            pass
