"""The files of a replica, opened together with its log: the history, the promised epoch, the owed cut."""

from typing import NamedTuple

from firearrow.errors import OffsetNotStored
from firearrow.model.epochs import Epochs, common_end
from firearrow.runtime.disk.door import Disk
from firearrow.store.epochs.epoch_file import EpochFile
from firearrow.store.epochs.owed_cut import OwedCut
from firearrow.store.epochs.promise import Promise


class ReplicaFiles(NamedTuple):
    """What a replica keeps about masters."""

    history: EpochFile
    promise: Promise
    cut: OwedCut

    @classmethod
    async def load(cls, disk: Disk) -> "ReplicaFiles":
        """Read the files of a directory."""
        return cls(await EpochFile.load(disk), await Promise.load(disk), await OwedCut.load(disk))

    async def lead(self, epoch: int, log_start: int, log_end: int) -> None:
        """Note, durably, that this replica writes from the end of its log on, as the master of an epoch.

        A log from before the first epoch is the first master's from its first byte on.
        """
        last = self.history.epochs.last
        if last is None or last.epoch != epoch:
            await self.history.begin(epoch, log_end if last is not None else log_start)

    async def rejoin(self, log_start: int, log_end: int, master: Epochs, master_end: int) -> bool:
        """Bring this log into agreement with a master's; return whether the master's bytes can follow it now.

        If not, the log owes a cut: the store must be opened again. Raise `OffsetNotStored` when nothing of the log is
        the master's, so that it must be copied from its beginning.
        """
        if not log_end:
            return True
        cut = common_end(self.history.epochs, log_end, master, master_end)
        if cut is None or cut < log_start:
            raise OffsetNotStored(
                f"no part of this log, from {log_start} to {log_end}, is known to be in the master's. Keep a copy of "
                "the store directory of this broker, empty it and start the broker again, so that it copies the log"
            )
        if cut < log_end:
            await self.cut.owe(cut)
            return False
        # An epoch in which this replica wrote nothing may be unknown to the master.
        await self.history.replace(self.history.epochs.cut(cut))
        return True
