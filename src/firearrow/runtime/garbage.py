"""When Python's garbage collector looks for cycles in a server, and at what.

A look holds the loop for as long as it takes to walk the objects that are looked at: a tenth of a second and more for
those of 50,000 topics, which Python walks again whenever a quarter as many are new. A server makes hardly any cycle,
and what ends does not end as one: connections, requests, topics. So what has survived two looks is put out of sight,
and every look is at young objects alone, a few thousand of them.

A cycle that was put out of sight while it was in use is found when memory has doubled since all was last looked at.
"""

import asyncio
import gc
import sys
from typing import Final

LOOKED_AT: Final = (5_000, 3, 1_000_000)
"""After how many new objects the collector looks at those, after how many such looks at all that are in sight. With
Python's 700 it looks hundreds of times a second under load, and finds nothing."""
MIDDLE: Final = 1
"""The generation of objects that have survived one look."""
ASKED_EVERY_S: Final = 60.0
GROWN: Final = 2.0


def settle() -> None:
    """Take all that is built out of the collector's sight, and what comes to stay. Call it once, on the loop."""
    gc.set_threshold(*LOOKED_AT)
    gc.callbacks.append(_put_out_of_sight)
    Growth().look()


def _put_out_of_sight(phase: str, looked: dict[str, int]) -> None:
    if phase == "stop" and looked["generation"] == MIDDLE:
        gc.freeze()


class Growth:
    """Has all looked at when memory has doubled."""

    def __init__(self) -> None:
        self._blocks = 0
        self.looks = 0
        """How often all was looked at."""

    def look(self) -> None:
        """Look at all if memory has doubled, and again in a minute."""
        if sys.getallocatedblocks() >= GROWN * self._blocks:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._blocks = sys.getallocatedblocks()
            self.looks += 1
        asyncio.get_running_loop().call_later(ASKED_EVERY_S, self.look)
