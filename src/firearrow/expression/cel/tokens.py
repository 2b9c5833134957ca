"""The tokens of a CEL expression. Pure. The language definition: ``cel-spec/doc/langdef.md``, Syntax."""

import re
from typing import Final, NamedTuple

from firearrow.expression.cel.values import MAX_INT, MAX_UINT, Uint, Value
from firearrow.expression.errors import BadExpression

MOST_CHARACTERS: Final = 8192
"""The most characters of an expression."""
MOST_TOKENS: Final = 2000
"""The most tokens of an expression."""
RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>[ \t\n\r\f]+|//[^\n]*)
  | (?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"|'''|"|'))
  | (?P<double>(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+))
  | (?P<int>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_ENDS: Final = {
    quote: re.compile(
        rf"((?:[^\\]|\\.)*?){quote}" if len(quote) == 3 else rf"((?:[^\\\n\r{quote}]|\\.)*){quote}", re.DOTALL
    )
    for quote in ('"', "'", '"""', "'''")
}
_RAW_ENDS: Final = {
    quote: re.compile(rf"(.*?){quote}" if len(quote) == 3 else rf"([^\n\r{quote}]*){quote}", re.DOTALL)
    for quote in ('"', "'", '"""', "'''")
}
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))|\\"
)
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip


class Token(NamedTuple):
    """A token. ``kind`` is ``name``, ``quoted``, ``literal``, ``end``, or the symbol itself."""

    kind: str
    text: str
    at: int
    value: Value = None


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of an expression, ``end`` last; raise `BadExpression` where there is none."""
    if len(text) > MOST_CHARACTERS:
        raise BadExpression(f"the expression has {len(text)} characters; the most is {MOST_CHARACTERS}")
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadExpression(f"{text[at]!r} at character {at + 1} begins nothing that CEL knows")
        kind, end = match.lastgroup, match.end()
        if kind == "text":
            token, end = _text(text, at, match.group())
            found.append(token)
        elif kind != "skip":
            found.append(_token(str(kind), match.group(), at))
        if len(found) > MOST_TOKENS:
            raise BadExpression(
                f"the expression has more than {MOST_TOKENS} names, values and signs, which is the most"
            )
        at = end
    found.append(Token("end", "", len(text)))
    return found


def _token(kind: str, text: str, at: int) -> Token:
    if kind == "symbol":
        return Token(text, text, at)
    if kind == "name":
        if text in _CONSTANTS:
            return Token("literal", text, at, _CONSTANTS[text])
        return Token("in" if text == "in" else "name", text, at)
    if kind == "quoted":
        return Token("quoted", text[1:-1], at)
    return Token("literal", text, at, float(text) if kind == "double" else _whole(text, at))


LONGEST_NUMBER: Final = 20
"""The digits of the largest number of 64 bits."""
_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


def _whole(text: str, at: int) -> int:
    """Return an integer. 2**63 is let through: a minus before it makes it valid, which the parser sees."""
    is_unsigned = text[-1] in "uU"
    digits = text[:-1] if is_unsigned else text
    most = MAX_UINT if is_unsigned else MAX_INT + 1
    value = _number(digits, most)
    if value > most:
        raise BadExpression(f"{text} at character {at + 1} does not fit into 64 bits")
    return Uint(value) if is_unsigned else value


def _number(digits: str, most: int) -> int:
    """Return the value of digits; more than ``most`` for so many digits that Python would refuse to count them."""
    base, digits = (16, digits[2:]) if digits[:2] in ("0x", "0X") else (10, digits)
    digits = digits.lstrip("0")
    if len(digits) > LONGEST_NUMBER:
        return most + 1
    return int(digits or "0", base)


def _text(text: str, at: int, opening: str) -> tuple[Token, int]:
    """Return a string or bytes literal and where it ends."""
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    match = (_RAW_ENDS if "r" in prefix else _ENDS)[quote].match(text, at + len(opening))
    if match is None:
        raise BadExpression(f"the text that begins at character {at + 1} has no closing {quote}")
    inner = match.group(1)
    if "b" in prefix:
        value: Value = inner.encode("utf-8", "surrogatepass") if "r" in prefix else _bytes(inner, at)
    else:
        value = inner if "r" in prefix else _unescaped(inner, at)
    return Token("literal", text[at : match.end()], at, value), match.end()


def _unescaped(inner: str, at: int) -> str:
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda match: _character(match, at), inner)


def _character(match: "re.Match[str]", at: int) -> str:
    simple, two, four, eight, octal = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    digits = two or four or eight
    if digits is None and octal is None:
        raise BadExpression(
            f"the text that begins at character {at + 1} has a \\ that escapes nothing; write \\\\ for one"
        )
    code = int(digits, 16) if digits is not None else int(octal, 8)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadExpression(f"the text that begins at character {at + 1} escapes {code:#x}, which is no character")
    return chr(code)


def _bytes(inner: str, at: int) -> bytes:
    parts: list[bytes] = []
    done = 0
    for match in _ESCAPE.finditer(inner):
        parts.append(inner[done : match.start()].encode("utf-8", "surrogatepass"))
        if match.group(3) or match.group(4):
            raise BadExpression(
                f"the bytes that begin at character {at + 1} have \\u or \\U; write \\x or octal digits"
            )
        parts.append(_character(match, at).encode("latin-1"))
        done = match.end()
    parts.append(inner[done:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)
