"""What a tool gives back, made into a result that everybody can carry.

A tool may return text, parts or a whole `ToolResult`; the model gets a result of bounded size whose text is text. What
does not fit is cut, and the result says so.
"""

from __future__ import annotations

from dragoman.lm import ContentPart, DataPart, TextPart
from dragoman.lm.parts import ToolResult
from dragoman.lm.surrogates import mended

__all__ = ["MAX_RESULT_BYTES", "MAX_RESULT_PARTS", "bounded", "failure_text", "result_of"]

# More than any model reads, less than any pipe on the way dies of.
MAX_RESULT_BYTES = 4 * 1024 * 1024
# Each part costs something to carry, however small it is.
MAX_RESULT_PARTS = 1_000
# An exception's message is for the model to react to, not to study.
_MAX_FAILURE = 4_000


def result_of(value: object) -> ToolResult:
    """The result that a returned value stands for; `TypeError` if it stands for none."""
    match value:
        case ToolResult():
            return ToolResult(_parts(value.content), is_error=value.is_error)
        case str() | TextPart() | DataPart():
            return ToolResult(_parts((value,)))
        case tuple() | list():
            return ToolResult(_parts(value))
        case _:
            raise TypeError(f"a tool returns text, parts or a ToolResult, not {type(value).__name__}")


def _parts(values: tuple[object, ...] | list[object]) -> tuple[ContentPart, ...]:
    return tuple(_part(value) for value in values)


def _part(value: object) -> ContentPart:
    match value:
        case str():
            return TextPart(mended(value))
        case TextPart(value=text, audience=audience):
            return TextPart(mended(text), audience)
        case DataPart():
            return value
        case _:
            raise TypeError(f"the content of a result is text and data parts, not {type(value).__name__}")


def failure_text(error: BaseException) -> str:
    """An exception, told to the model."""
    message = str(error)
    if len(message) > _MAX_FAILURE:
        message = f"{message[:_MAX_FAILURE]}…"
    name = type(error).__name__
    return mended(f"Error: {name}: {message}" if message else f"Error: {name}")


def bounded(result: ToolResult) -> ToolResult:
    """`result`, or as much of it as fits with a line that says what was left out."""
    total = sum(map(_size, result.content))
    if total <= MAX_RESULT_BYTES and len(result.content) <= MAX_RESULT_PARTS:
        return result
    kept: list[ContentPart] = []
    left = MAX_RESULT_BYTES
    for part in result.content[: MAX_RESULT_PARTS - 1]:
        size = _size(part)
        if size > left:
            if isinstance(part, TextPart):
                # Half an image is none, but half a text is worth having. A cut character is dropped.
                text = part.value.encode()[:left].decode(errors="ignore")
                kept.append(TextPart(text, part.audience))
            break
        kept.append(part)
        left -= size
    notice = (
        f"\n\n[This result was cut: it has {total:,} bytes in {len(result.content):,} parts; the limit is "
        f"{MAX_RESULT_BYTES:,} bytes in {MAX_RESULT_PARTS:,} parts. Ask for less at a time.]"
    )
    return ToolResult((*kept, TextPart(notice)), is_error=result.is_error)


def _size(part: ContentPart) -> int:
    return len(part.value.encode()) if isinstance(part, TextPart) else len(part.data)
