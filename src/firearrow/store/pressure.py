"""Whether messages may be taken: what leads to them must be written, or memory fills with it.

From a flush of the views that failed until one that succeeds, every batch of rows that comes to them is followed by a
look at how much waits in memory, so that no more than the limit waits and what was taken already. Before a failure is
known an interval's rows may wait, and those that come while the flush lasts. At other times nobody looks.
"""

import logging
from collections.abc import Callable

from firearrow.errors import DiskError, ResourceShortage
from firearrow.store.dispatch import View
from firearrow.store.placement import Rows

logger = logging.getLogger(__name__)


class Pressure:
    """Says why no message should be taken. ``onlookers`` are called after every batch that comes to the views."""

    def __init__(self, waiting_bytes: Callable[[], int], limit: int, onlookers: list[View]) -> None:
        self.refusal: ResourceShortage | None = None
        """Why no message should be taken."""
        self.stalled: DiskError | None = None
        """Why the last flush failed, if it did."""
        self._waiting_bytes = waiting_bytes
        self._limit = limit
        self._onlookers = onlookers

    def flush_failed(self, error: DiskError) -> None:
        """Look from now on."""
        if self.stalled is None:
            logger.warning("queues and index cannot be written for now: %s", error, extra={"reason": str(error)})
            self._onlookers.append(self._look)
        self.stalled = error
        self._refuse_if_full()

    def flush_ended(self) -> None:
        """All is written: look no more, and take messages again."""
        if self.refusal is not None:
            logger.warning("sends are taken again: queues and index are written")
        if self.stalled is not None:
            self._onlookers.remove(self._look)
        self.refusal = self.stalled = None

    def _look(self, rows: Rows) -> None:
        del rows
        self._refuse_if_full()

    def _refuse_if_full(self) -> None:
        if self.refusal is not None or (waiting := self._waiting_bytes()) <= self._limit:
            return
        self.refusal = ResourceShortage(
            f"queues and index cannot be written ({self.stalled}) and {waiting} bytes of them wait in memory, over the "
            f"{self._limit} of maxPendingQueueBytes; sends are taken again when they can be"
        )
        logger.error("sends are refused: %s", self.refusal)
