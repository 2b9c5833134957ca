"""Protobuf's text format, read without a schema: a message becomes a dict of lists, by field.

Enough for the vectors of CEL's specification: no extensions, no ``Any`` in brackets (such a field keeps its name as it
stands).
"""

import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, list[Any]]
"""The values of every field, in order: messages, texts (as bytes), or words as they stand."""

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[^\s{}:;,<>\[\]"'#]+)|(?P<sign>.)"""
)
_ESCAPE = re.compile(rb"\\([abfnrtv\\?\"']|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3})")
_SIMPLE = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def parse_textproto(text: str) -> Message:
    """Return the message of a file."""
    return _message(_Tokens(text), "")


class Word(str):
    """A number, a name or a constant."""

    __slots__ = ()


class _Tokens:
    def __init__(self, text: str) -> None:
        self._found: list[tuple[str, str]] = [
            (match.lastgroup, match.group()) for match in _TOKEN.finditer(text) if match.lastgroup
        ]
        self._at = 0

    def peek(self) -> tuple[str, str]:
        return self._found[self._at] if self._at < len(self._found) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self._at += 1
        return token

    def takes(self, sign: str) -> bool:
        if self.peek() != ("sign", sign):
            return False
        self._at += 1
        return True


def _message(tokens: _Tokens, closing: str) -> Message:
    fields: Message = {}
    while tokens.peek()[0] != "end" and not (closing and tokens.takes(closing)):
        name = "".join(_name(tokens))
        tokens.takes(":")
        fields.setdefault(name, []).extend(_values(tokens))
        _ = tokens.takes(",") or tokens.takes(";")
    return fields


def _name(tokens: _Tokens) -> Iterator[str]:
    if not tokens.takes("["):
        yield tokens.take()[1]
        return
    yield "["
    while not tokens.takes("]"):
        yield tokens.take()[1]
    yield "]"


def _values(tokens: _Tokens) -> list[Any]:
    if not tokens.takes("["):
        return [_value(tokens)]
    found: list[Any] = []
    while not tokens.takes("]"):
        found.append(_value(tokens))
        tokens.takes(",")
    return found


def _value(tokens: _Tokens) -> Any:  # noqa: ANN401 - a message or a scalar
    if tokens.takes("{"):
        return _message(tokens, "}")
    if tokens.takes("<"):
        return _message(tokens, ">")
    kind, text = tokens.take()
    if kind == "word":
        return Word(text)
    parts = [_unescaped(text)]
    while tokens.peek()[0] == "text":
        parts.append(_unescaped(tokens.take()[1]))
    return b"".join(parts)


def _unescaped(quoted: str) -> bytes:
    return _ESCAPE.sub(_escaped, quoted[1:-1].encode())


def _escaped(match: "re.Match[bytes]") -> bytes:
    code = match.group(1)
    if code[:1] in b"uU":
        return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
    if code[:1] in b"xX":
        return bytes([int(code[1:], 16)])
    if code.isdigit():
        return bytes([int(code, 8) & 0xFF])
    return _SIMPLE.get(code, code)
