"""The log format of servers: one line an event, the message first, then its values.

2026-11-15 10:00:00,123 WARNING firearrow.nameserver.server: broker broker-a is removed: silent broker=broker-a id=0

Or as JSON, one object a line, with the same values as members. Texts of strangers come into messages and errors:
control characters, which a terminal would obey, are written as escapes in both forms.
"""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from typing import Any, Final

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

FILE_BYTES: Final = 128 << 20
FILES_KEPT: Final = 10


_ESCAPES: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
"""Control characters, separators of lines and marks of direction: a terminal obeys them, or shows other texts."""
_TRACE_ESCAPES: Final = {code: escape for code, escape in _ESCAPES.items() if chr(code) not in "\n\t"}


class LineForm(StrEnum):
    """The form of a line."""

    TEXT = "text"
    JSON = "json"


class ValuesFormatter(logging.Formatter):
    """Writes the values of ``extra`` after the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line without its traceback."""
        values = [f" {key}={value!r}" for key, value in record.__dict__.items() if key not in _KNOWN]
        record.message = record.message.translate(_ESCAPES)  # an event is a line
        return super().formatMessage(record) + "".join(values)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - logging's name, and a tuple of its own
        """Return the trace of an error, whose text may be a stranger's."""
        return super().formatException(ei).translate(_TRACE_ESCAPES)


class JsonFormatter(logging.Formatter):
    """Writes an event as one JSON object: time, level, logger, event, its values, and the trace of an error.

    A value under one of the first four names gets ``_of_event`` added to its name.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        values = {key: value for key, value in record.__dict__.items() if key not in _KNOWN}
        line |= {f"{key}_of_event" if key in line else key: value for key, value in values.items()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(level: str = "INFO", form: LineForm = LineForm.TEXT) -> None:
    """Log everything of ``level`` and above to standard error."""
    _log_to(logging.StreamHandler(), level, form)


def log_to_file(path: str, level: str = "INFO", form: LineForm = LineForm.TEXT) -> None:
    """Log to a file, which is renamed when it is large; ``FILES_KEPT`` old ones are kept."""
    handler = RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
    _log_to(handler, level, form)


def _log_to(handler: logging.Handler, level: str, form: LineForm) -> None:
    handler.setFormatter(JsonFormatter() if form is LineForm.JSON else ValuesFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def logs_json() -> bool:
    """Whether servers log JSON lines now."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def change_level(level: str) -> None:
    """Log from another level on, while the program runs; the change itself is a line."""
    root = logging.getLogger()
    root.setLevel(level)
    root.log(root.level, "the log level is %s now", level, extra={"log_level": str(level)})
