"""The log's part of an owed cut, done when the store is opened, and a history that agrees with the log.

Epochs that begin behind the end of the log were lost with the power, and epochs whose files were all deleted are
forgotten.
"""

import logging
from typing import NamedTuple

from firearrow.runtime.disk.door import Disk
from firearrow.store.epochs.replica_files import ReplicaFiles
from firearrow.store.log.segments import Segments
from firearrow.store.ours.flush_slot import SlotFile
from firearrow.store.recovery.cut import cut_off, make_cut_durable
from firearrow.store.recovery.damage import Damage
from firearrow.store.recovery.recover import Recovered

log = logging.getLogger(__name__)


class CutLog(NamedTuple):
    """A recovered log that may owe a cut."""

    disk: Disk
    segments: Segments
    damage: Damage
    slot: SlotFile
    replica: ReplicaFiles

    async def settle(self, recovered: Recovered) -> Recovered:
        """Cut the log where it owes that, and the history with it; return the log as it is then."""
        offset, epochs = self.replica.cut.offset, self.replica.history.epochs
        if offset is not None:
            if offset < recovered.end:
                recovered = await self._cut(recovered, offset)
            epochs = epochs.cut(offset)
        await self.replica.history.replace(epochs.ended(recovered.end).kept_from(self.segments.min_offset))
        return recovered

    async def _cut(self, recovered: Recovered, offset: int) -> Recovered:
        checked_from = min(recovered.checked_from, offset)
        # First the slot: bytes below its flushed offset would count as lost after a crash within the cut.
        await self.slot.begin(offset, checked_from)
        cut = await cut_off(self.segments, self.damage, offset, "not in the master's log")
        await make_cut_durable(self.disk, self.segments)
        await self.damage.clip(offset)
        extra = {"cut_bytes": cut, "end": offset}
        log.warning("cut %d bytes off the log at %d: the master does not have them", cut, offset, extra=extra)
        return recovered._replace(end=offset, checked_from=checked_from, cut_bytes=recovered.cut_bytes + cut)
