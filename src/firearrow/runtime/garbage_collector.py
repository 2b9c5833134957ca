"""The schedule of Python's garbage collector in a server, and the objects that it walks.

A collection holds the loop while it walks its objects: a tenth of a second and more for the objects of 50,000 topics,
which Python walks again whenever a quarter as many are new. A server makes hardly any reference cycles: connections,
requests and topics are freed by reference counting. So objects that have survived two collections are frozen
(``gc.freeze``), and a collection walks only a few thousand young objects.

A cycle among frozen objects is found by a full collection, which runs when memory has doubled since the last one.
"""

import asyncio
import gc
import sys
from typing import Final

LOOKED_AT: Final = (5_000, 3, 1_000_000)
"""Thresholds of the collector: new objects before a young collection, and young collections before older ones. With
Python's default of 700 it runs hundreds of times a second under load, and finds nothing."""
MIDDLE: Final = 1
"""The generation of objects that have survived one collection."""
ASKED_EVERY_S: Final = 60.0
GROWN: Final = 2.0


def settle() -> None:
    """Freeze all present objects, and later those that survive. Call it once, on the loop."""
    gc.set_threshold(*LOOKED_AT)
    gc.callbacks.append(_put_out_of_sight)
    Growth().look()


def _put_out_of_sight(phase: str, looked: dict[str, int]) -> None:
    if phase == "stop" and looked["generation"] == MIDDLE:
        gc.freeze()


class Growth:
    """Runs a full collection when memory has doubled."""

    def __init__(self) -> None:
        self._blocks = 0
        self.looks = 0
        """The number of full collections."""

    def look(self) -> None:
        """Collect everything if memory has doubled; check again in a minute."""
        if sys.getallocatedblocks() >= GROWN * self._blocks:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._blocks = sys.getallocatedblocks()
            self.looks += 1
        asyncio.get_running_loop().call_later(ASKED_EVERY_S, self.look)
