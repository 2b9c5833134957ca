r"""Java properties text: the form of ``broker.conf`` and of the configuration bodies on the wire.

Java: ``MixAll.properties2String`` writes plain ``name=value`` lines without any escape; ``MixAll.string2Properties``
reads with ``java.util.Properties.load``: ``#`` and ``!`` open comments, ``=``, ``:`` or blanks end a name, a backslash
escapes (``\t``, ``\n``, ``\r``, ``\f``, ``\uXXXX``, anything else is itself) and continues a line at its end.

Invariants: ``parse_properties(format_properties(x)) == x`` for every table of texts (what we write escapes what a
reader would take for syntax, and nothing else, so that ordinary settings look as Java writes them).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from firearrow.errors import SettingsError

_COMMENTS: Final = ("#", "!")
_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_TOKEN: Final = re.compile(r"\\u(?P<hex>[0-9a-fA-F]{4})|\\(?P<one>.)|(?P<plain>[^\\]+)", re.DOTALL)
_HEX_DIGITS: Final = 4


def format_properties(values: Mapping[str, str]) -> str:
    """Return ``name=value`` lines."""
    return "".join(f"{_escape_name(name)}={_escape_value(value)}\n" for name, value in values.items())


def _escape_name(name: str) -> str:
    escaped = "".join(_WRITTEN.get(char) or (f"\\{char}" if char in " =:" else char) for char in name)
    return f"\\{escaped}" if escaped.startswith(_COMMENTS) else escaped


def _escape_value(value: str) -> str:
    escaped = "".join(_WRITTEN.get(char, char) for char in value)
    return f"\\{escaped}" if escaped.startswith((" ", "=", ":")) else escaped


def parse_properties(text: str) -> dict[str, str]:
    """Read lines as ``java.util.Properties`` does; a later value of a name wins."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    pending: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line.startswith(_COMMENTS)):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        pending.append(line[:-1] if backslashes % 2 else line)
        if backslashes % 2 == 0:
            yield "".join(pending)
            pending.clear()
    if pending:
        yield "".join(pending)


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    for match in _TOKEN.finditer(text):
        if match["plain"] is not None:
            out.append(match["plain"])
        elif match["hex"] is not None:
            out.append(chr(int(match["hex"], 16)))
        elif match["one"] == "u":
            raise SettingsError(f"settings hold a \\u escape without {_HEX_DIGITS} digits: {text[:200]!r}")
        else:
            out.append(_ESCAPED.get(match["one"], match["one"]))
    # Java's \uD83D\uDE00 is one character in two surrogates; a lone surrogate is not valid text.
    joined = "".join(out).encode("utf-16", "surrogatepass")
    return joined.decode("utf-16", "replace")
