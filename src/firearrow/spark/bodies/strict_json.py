"""JSON by the letter of RFC 8259. Pure.

Python's parser with its liberties taken away: one value and nothing after it, UTF-8 alone, no NaN or Infinity, no
repeated names in an object, no half of a surrogate pair. Numbers with a fraction or an exponent stay as they are
written (`NumberText`), so that decimals keep their digits and rescued values are not rounded.
"""

import json
from typing import Any, Final

from firearrow.spark.bodies.misfit import Misfit, shown

Json = Any


class NumberText(str):
    """A number as it is written in the text: 2.50, 1e400."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Misfit(f"the body repeats a field: {shown(name)}")
    return made


def _no_number(text: str) -> Json:
    raise Misfit(f"the body is not JSON: {text} is not a number there")


_SCAN: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=NumberText, parse_constant=_no_number).decode


def parse(body: bytes) -> Json:
    """The value of a text; raise `Misfit` if it is not exactly one JSON value."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        raise Misfit(f"the body is not UTF-8 (byte {wrong.start})") from None
    try:
        found = _SCAN(text)
    except json.JSONDecodeError as wrong:
        if wrong.msg == "Extra data":
            raise Misfit(f"the body goes on after its JSON value (character {wrong.pos})") from None
        raise Misfit(f"the body is not JSON: {wrong.msg} (character {wrong.pos})") from None
    except RecursionError:
        raise Misfit("the body is nested too deeply") from None
    except Misfit:
        raise
    except ValueError:  # Python reads integers of at most 4300 digits
        raise Misfit("the body has a number of too many digits") from None
    if "\\u" in text:
        _require_whole_characters(found)
    return found


def _require_whole_characters(value: Json) -> None:
    """Halves of surrogate pairs are no characters, and no column can hold them."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Misfit("the body has half of a surrogate pair") from None


def text_of(value: Json) -> str:
    """A parsed value as JSON again, numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{text_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
