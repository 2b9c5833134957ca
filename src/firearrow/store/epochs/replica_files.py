"""The files of a replica, opened together with its log: the history, the promised epoch, the owed cut."""

from typing import NamedTuple

from firearrow.errors import OffsetNotStored
from firearrow.model.epochs import Epochs, common_end
from firearrow.runtime.disk.door import Disk
from firearrow.store.epochs.epoch_file import EpochFile
from firearrow.store.epochs.owed_cut import OwedCut
from firearrow.store.epochs.promise import PromiseFile


class MasterLog(NamedTuple):
    """The log that a replica follows: that of its master."""

    history: Epochs
    end: int
    named: int = 0
    """The last epoch whose master an operator chose against the rules; 0 for none."""


class ReplicaFiles(NamedTuple):
    """The files of a replica about its masters."""

    history: EpochFile
    promise: PromiseFile
    cut: OwedCut

    @classmethod
    async def load(cls, disk: Disk) -> "ReplicaFiles":
        """Read the files of a directory."""
        return cls(await EpochFile.load(disk), await PromiseFile.load(disk), await OwedCut.load(disk))

    async def lead(self, epoch: int, log_start: int, log_end: int) -> None:
        """Note, durably, that this replica writes from the end of its log on, as the master of an epoch.

        A log from before the first epoch is the first master's from its first byte on.
        """
        last = self.history.epochs.last
        if last is None or last.epoch != epoch:
            await self.history.begin(epoch, log_end if last is not None else log_start)

    async def rejoin(self, log_start: int, log_end: int, master: MasterLog) -> bool:
        """Bring this log into agreement with a master's; return whether the master's bytes can follow it now.

        If not, the log owes a cut: the store must be opened again. Raise `OffsetNotStored` when it is not known that a
        part of the log is the master's, so that an operator must look at it.
        """
        if log_end:
            cut = common_end(self.history.epochs, log_end, master.history, master.end)
            if cut is None and _began_anew(self.history.epochs, master):
                cut = 0
            if cut is None or cut < log_start:
                raise OffsetNotStored(
                    f"no part of this log, from {log_start} to {log_end}, is known to be in the master's, and it is "
                    "not cut: an operator elected a replica without these messages, or the master has deleted the "
                    "files that both had. Keep a copy of the store directory of this broker, empty it and start the "
                    "broker again, so that it copies the log"
                )
            if cut < log_end:
                await self.cut.owe(cut)
                return False
        # This log is the beginning of the master's, so the master's history is its own.
        await self.history.replace(master.history)
        return True


def _began_anew(mine: Epochs, master: MasterLog) -> bool:
    """Whether a master that was elected by the rules has a whole log, all of it later than this one.

    Then it was elected with an empty log while it had everything that was acknowledged: that was nothing.
    """
    if not mine.entries or not master.history.entries:
        return False
    first, last = master.history.entries[0], mine.entries[-1]
    return first.start_offset == 0 and first.epoch > last.epoch > master.named
