"""Backpressure of the views: refuses sends while queues and index cannot be written and fill the memory.

From a failed flush of the views until one that succeeds, the bytes that wait in memory are counted after every batch of
rows, so that at most the limit waits, plus the sends that were accepted before. Before the first failure the rows of
one interval and of the flush itself may wait. At other times nothing is counted.
"""

import logging
from collections.abc import Callable

from firearrow.errors import DiskError, ResourceShortage
from firearrow.store.dispatch import View
from firearrow.store.placement import Rows

logger = logging.getLogger(__name__)


class Pressure:
    """Says why sends must be refused. ``onlookers`` is the list of views that are called after every batch of rows."""

    def __init__(self, waiting_bytes: Callable[[], int], limit: int, onlookers: list[View]) -> None:
        self.refusal: ResourceShortage | None = None
        """The reason why sends must be refused; None while they are accepted."""
        self.stalled: DiskError | None = None
        """The reason why the last flush failed; None if it succeeded."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `refusal` changes."""
        self._waiting_bytes = waiting_bytes
        self._limit = limit
        self._onlookers = onlookers

    def flush_failed(self, error: DiskError) -> None:
        """Count waiting bytes from now on."""
        if self.stalled is None:
            logger.warning("queues and index cannot be written at present: %s", error, extra={"reason": str(error)})
            self._onlookers.append(self._look)
        self.stalled = error
        self._refuse_if_full()

    def flush_ended(self) -> None:
        """Stop counting, and accept sends again: everything is written."""
        if self.stalled is not None:
            self._onlookers.remove(self._look)
            self.stalled = None
        if self.refusal is not None:
            logger.warning("sends are accepted again: queues and index are written")
            self.refusal = None
            self.on_change()

    def _look(self, rows: Rows) -> None:
        del rows
        self._refuse_if_full()

    def _refuse_if_full(self) -> None:
        if self.refusal is not None or (waiting := self._waiting_bytes()) <= self._limit:
            return
        self.refusal = ResourceShortage(
            f"queues and index cannot be written ({self.stalled}) and {waiting} bytes of them wait in memory, over the "
            f"{self._limit} of maxPendingQueueBytes; sends are accepted again once they are written"
        )
        logger.error("sends are refused: %s", self.refusal)
        self.on_change()
