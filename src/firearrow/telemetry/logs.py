"""The log format of servers: one line an event, the message first, then its values.

2026-11-15 10:00:00,123 WARNING firearrow.nameserver.server: broker broker-a is removed: silent broker=broker-a id=0
"""

import logging
from typing import Final

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class ValuesFormatter(logging.Formatter):
    """Writes the values of ``extra`` after the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line without its traceback."""
        values = [f" {key}={value!r}" for key, value in record.__dict__.items() if key not in _KNOWN]
        return super().formatMessage(record) + "".join(values)


def log_to_stderr(level: str = "INFO") -> None:
    """Log everything of ``level`` and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(ValuesFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
