"""The tokens of a SQL92 expression, one at a time. Pure. Java: the token section of ``SelectorParser.jj``.

The longest token wins, and a word is a keyword before it is a name. A line comment needs its line end; ``--`` without
one is twice a minus. Tokens are made when the parser asks for them: text behind the end of an expression is not read
beyond its first token, as in Apache's parser.
"""

import re
from collections.abc import Iterator
from typing import Final

from firearrow.expression.errors import BadExpression

KEYWORDS: Final = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()  # noqa: SIM905 - a list to read
)
SYMBOLS: Final = {
    "=": "EQUAL",
    "<>": "UNEQUAL",
    ">": "ABOVE",
    ">=": "AT_LEAST",
    "<": "BELOW",
    "<=": "AT_MOST",
    "(": "OPEN",
    ")": "CLOSE",
    ",": "COMMA",
    "+": "PLUS",
    "-": "MINUS",
}
_SPACE: Final = re.compile(r"[ \t\n\r\f]+")
_LINE_END: Final = re.compile(r"[\n\r]")
_TOKEN: Final = re.compile(
    r"(?P<WORD>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<TEXT>'(?:''|[^'])*')"
    r"|(?P<FLOAT>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<WHOLE>0|[1-9][0-9]*[lL]?)"
    r"|(?P<SYMBOL><>|>=|<=|[=<>(),+-])"
)


def tokens_of(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the type, the text and the position of every token; raise `BadExpression` at a character of no token."""
    at, last_line_end = 0, max(text.rfind("\n"), text.rfind("\r"))
    while (at := _skip(text, at, last_line_end)) < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadExpression(_unknown(text, at))
        kind, image = found.lastgroup or "", found[0]
        if kind == "WORD":
            upper = image.upper()
            kind = upper if upper in KEYWORDS else "NAME"
        elif kind == "SYMBOL":
            kind = SYMBOLS[image]
        yield kind, image, at
        at = found.end()


def _skip(text: str, at: int, last_line_end: int) -> int:
    """Return where the next token begins: behind white space and comments."""
    while True:
        found = _SPACE.match(text, at)
        if found is not None:
            at = found.end()
        elif text.startswith("--", at) and at < last_line_end:
            at = next(_LINE_END.finditer(text, at)).end()
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise BadExpression(f"the comment that begins at character {at + 1} has no end: add */")
            at = end + 2
        else:
            return at


def _unknown(text: str, at: int) -> str:
    if text[at] == "'":
        return f"the text that begins at character {at + 1} has no end: close it with ' (a ' inside is written '')"
    return f"character {at + 1} is {text[at]!r}, which SQL92 filters do not know"


def decoded(image: str) -> str:
    """Return the text that a literal in quotes stands for."""
    return image[1:-1].replace("''", "'")
