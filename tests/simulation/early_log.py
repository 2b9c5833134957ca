"""A log that calls a record kept when it is written, whatever the broker promises: the plant of several bugs."""

from typing import Any

from firearrow.store.placement import WRITTEN


class EarlyLog:
    """A log as it is, but for what it calls kept."""

    kept_at = WRITTEN

    def __init__(self, log: Any) -> None:
        self._log = log

    @property
    def kept(self) -> int:
        """The log without its waits."""
        return int(self._log.written)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)
