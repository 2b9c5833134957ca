"""The log format of servers: one line an event, the message first, then its values.

2026-11-15 10:00:00,123 WARNING firearrow.nameserver.server: broker broker-a is removed: silent broker=broker-a id=0

Or as JSON, one object a line, with the same values as members.
"""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from typing import Final

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

FILE_BYTES: Final = 128 << 20
FILES_KEPT: Final = 10


class Form(StrEnum):
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
        record.message = record.message.replace("\r", "\\r").replace("\n", "\\n")  # an event is a line
        return super().formatMessage(record) + "".join(values)


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


def log_to_stderr(level: str = "INFO", form: Form = Form.TEXT) -> None:
    """Log everything of ``level`` and above to standard error."""
    _log_to(logging.StreamHandler(), level, form)


def log_to_file(path: str, level: str = "INFO", form: Form = Form.TEXT) -> None:
    """Log to a file, which is renamed when it is large; ``FILES_KEPT`` old ones are kept."""
    handler = RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
    _log_to(handler, level, form)


def _log_to(handler: logging.Handler, level: str, form: Form) -> None:
    handler.setFormatter(JsonFormatter() if form is Form.JSON else ValuesFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def logs_json() -> bool:
    """Whether servers log JSON lines now."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def change_level(level: str) -> None:
    """Log from another level on, while the program runs; the change itself is a line."""
    root = logging.getLogger()
    root.setLevel(level)
    root.log(root.level, "the log level is %s now", level, extra={"log_level": str(level)})
