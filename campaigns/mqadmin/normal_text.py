"""Takes out of a printed text what differs from run to run: times, rates, ids, the order of lines and of maps."""

import json
import re

from firearrow import fastjson
from firearrow.errors import BadBody

_CHANGES = (
    (re.compile(r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,:]\d+)?"), "TIME"),
    (re.compile(r"\b1[0-9]{12}\b|\b20[0-9]{15}\b|\b1970[0-9]{13}\b"), "MS"),
    (re.compile(r"-?\d+\.\d+(?:E-?\d+)?(?![\d.])(?<!\d\.\d\.\d)"), "F"),
    (re.compile(r"\brt=\d+ms"), "rt=N"),
    (re.compile(r"\d+ minutes, \d+ seconds"), "AGE"),
    (re.compile(r"\b(timerReadBehind\s*): \d+$"), r"\1: AGE"),
    (re.compile(r"queueOffset=\d+, recallHandle"), "queueOffset=N, recallHandle"),
    (re.compile(r", __CRC32#=\d+"), ""),
    (re.compile(r"__CRC32#=\d+, "), ""),
    (re.compile(r"\b(?:u|key)-(?:ours|apache)\b"), "WHO"),
)
_MAP = re.compile(r"\{([^{}]*)\}")
_LAST_NUMBER = re.compile(r"(true\s+)\d+$")


def normal(text: str) -> list[str]:
    """Return the lines of a text without what differs from run to run, sorted."""
    plain = _json(text)
    if plain is not None:
        return [plain]
    return sorted(filter(None, (_line(line) for line in text.splitlines())))


def _json(text: str) -> str | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.dumps(fastjson.read(text.encode()), sort_keys=True, default=str)
    except BadBody:
        return None


def _line(line: str) -> str:
    line = line.rstrip()
    if re.search(r"\d+\.\d+\.\d+\.\d+", line) is None:
        for pattern, told in _CHANGES:
            line = pattern.sub(told, line)
    else:
        for pattern, told in _CHANGES:
            if told != "F":
                line = pattern.sub(told, line)
        line = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.])", "F", line)
    line = _MAP.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", line)
    return " ".join(_LAST_NUMBER.sub(r"\1N", line).split())
