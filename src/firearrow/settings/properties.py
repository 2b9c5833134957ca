r"""Java properties text: the form of ``broker.conf`` and of the configuration bodies on the wire.

One ``key=value`` a line; ``:`` or white space also separate; ``#`` and ``!`` start a comment; a line that ends in an
odd number of backslashes goes on; ``\t \n \r \f \uXXXX`` are escapes. Must agree with ``java.util.Properties.load``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from firearrow.errors import SettingsError

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs in ``text``; of a repeated key the last wins, as in Java."""
    pairs = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def format_properties(pairs: Mapping[str, str]) -> str:
    """Return ``pairs`` as lines of ``key=value``, the way Apache's servers print their configuration."""
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    at, size = 0, len(line)
    while at < size and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char if char != "\\" else "")
            continue
        char = text[at]
        at += 1
        if char == "u":
            out.append(_unicode(text[at : at + 4]))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out)


def _unicode(digits: str) -> str:
    if len(digits) != 4 or not all(d in "0123456789abcdefABCDEF" for d in digits):
        raise SettingsError(f"\\u{digits} is not a character: write four hexadecimal digits after \\u")
    return chr(int(digits, 16))
