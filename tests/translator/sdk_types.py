"""Every field of the official SDK's types, found by walking them from a few roots.

An object goes by its `type` (`tool_result`), one without by the field it stands in (`metadata`), a root by the name it is
given here. So `("tool_result", "is_error")` is a field, and so is `("metadata", "user_id")`.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAliasType, get_args, get_origin

import typing_extensions
from anthropic.types import (
    Message,
    MessageTokensCount,
    ModelInfo,
    RawMessageStreamEvent,
    beta,
    message_count_tokens_params,
    message_create_params,
    model_list_params,
)
from anthropic.types.beta import message_count_tokens_params as beta_count_tokens_params
from anthropic.types.beta import message_create_params as beta_create_params
from pydantic import BaseModel

__all__ = ["ROOTS", "Field", "fields_of"]

#: An object and one of its fields.
type Field = tuple[str, str]

WRAPPERS = (
    Annotated, typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)  # fmt: skip

#: By section of the page: each root's name, and its types.
ROOTS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "Requests": {
        "request": (
            message_create_params.MessageCreateParamsBase,
            message_create_params.MessageCreateParamsStreaming,
            message_count_tokens_params.MessageCountTokensParams,
            beta_create_params.MessageCreateParamsBase,
            beta_create_params.MessageCreateParamsStreaming,
            beta_count_tokens_params.MessageCountTokensParams,
        ),
    },
    "Answers": {
        "message": (Message, beta.BetaMessage),
        "event": (RawMessageStreamEvent, beta.BetaRawMessageStreamEvent),
        "count": (MessageTokensCount, beta.BetaMessageTokensCount),
    },
    "Models": {
        "query": (model_list_params.ModelListParams,),
        "model": (ModelInfo, beta.BetaModelInfo),
    },
}


def fields_of(section: str, *, is_covered: Callable[[Field], bool]) -> set[Field]:
    """Return the fields of a section; what is below a field that `is_covered` is not looked at.

    Args:
        section: One of `ROOTS`.
        is_covered: Whether the field stands for all that is in it.
    """
    found: set[Field] = set()
    seen: set[tuple[Any, str]] = set()
    waiting = [(type_, name) for name, types in ROOTS[section].items() for type_ in types]
    while waiting:
        type_, context = waiting.pop()
        for shape in shapes_in(type_):
            if (shape, context) in seen:
                continue
            seen.add((shape, context))
            for owner in names_of(shape, context):
                for name, inner in members_of(shape).items():
                    found.add((owner, name))
                    if not is_covered((owner, name)):
                        waiting.append((inner, name))
    return found


def shapes_in(type_: Any) -> Iterator[Any]:
    """Yield the objects that a type is made of: the members of a union, the items of a list."""
    if isinstance(type_, TypeAliasType):
        yield from shapes_in(type_.__value__)
    elif is_shape(type_):
        yield type_
    else:
        for inner in get_args(type_):
            yield from shapes_in(inner)


def is_shape(type_: Any) -> bool:
    return typing_extensions.is_typeddict(type_) or (isinstance(type_, type) and issubclass(type_, BaseModel))


def names_of(shape: Any, context: str) -> list[str]:
    """Return the values of its `type`; the context where it has none."""
    literals = list(literals_in(hints_of(shape).get("type")))
    return literals or [context]


def literals_in(type_: Any) -> Iterator[str]:
    if get_origin(type_) is Literal:
        yield from (value for value in get_args(type_) if isinstance(value, str))
    else:
        for inner in get_args(type_):
            yield from literals_in(inner)


def members_of(shape: Any) -> dict[str, Any]:
    """Return the fields by the name they have on the wire."""
    hints = hints_of(shape)
    names = {name: name for name in hints}
    if not typing_extensions.is_typeddict(shape):
        names |= {name: field.alias or name for name, field in shape.model_fields.items()}
    return {names[name].rstrip("_"): hint for name, hint in hints.items() if not is_tag(name, hint)}


def is_tag(name: str, hint: Any) -> bool:
    """Whether it is the `type` that an object goes by."""
    return name == "type" and bool(list(literals_in(hint)))


def hints_of(shape: Any) -> dict[str, Any]:
    if typing_extensions.is_typeddict(shape):
        return dict(typing_extensions.get_type_hints(shape, include_extras=True))
    return {name: field.annotation for name, field in shape.model_fields.items()}
