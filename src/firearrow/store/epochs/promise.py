"""The promise: the newest epoch in which this replica has answered anything, and its master. It never goes back.

A replica stores the promise durably before its first answer in a new epoch, and from then on refuses older masters, so
an older master gets no acknowledgement any more. That holds after a crash too. The master belongs to the promise: a
coordinator that was put back to an older state could name another one in the same epoch. The file is sealed JSON, kept
twice; when neither copy is good, the store does not open, because a forgotten promise could be broken.
"""

import asyncio
from typing import Final

import msgspec

from firearrow.errors import DiskError, StaleEpoch
from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import OURS
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed

PROMISE: Final = f"{OURS}/promised.json"


class _PromiseContents(msgspec.Struct):
    epoch: int
    master: int


class PromiseFile:
    """The promise on disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._one_at_a_time = asyncio.Lock()
        self.epoch = 0
        """The promised epoch; 0 before the first promise."""
        self.master = 0
        """The id of the broker that is master in that epoch."""

    @classmethod
    async def load(cls, disk: Disk) -> "PromiseFile":
        """Read the promise. Raise when there is a file and no copy of it is good."""
        contents = await read_sealed(disk, PROMISE, _PromiseContents)
        if contents is None and (disk.exists(PROMISE) or disk.exists(f"{PROMISE}.bak")):
            raise DiskError(
                f"{PROMISE} and its copy are damaged, so it is not known which masters this replica must refuse; "
                "empty the directory and let the broker copy the log again from its master"
            )
        promise = cls(disk)
        if contents is not None:
            # A crash between the two copies leaves them different: an answer must not depend on one copy.
            await promise.make(contents.epoch, contents.master)
        return promise

    async def make(self, epoch: int, master: int) -> None:
        """Promise, durably, to answer nobody but this master and later ones; raise `StaleEpoch` for an earlier one."""
        async with self._one_at_a_time:
            self.check(epoch, master)
            if epoch > self.epoch:
                await write_sealed(self._disk, PROMISE, _PromiseContents(epoch, master))
                self.epoch, self.master = epoch, master

    def check(self, epoch: int, master: int) -> None:
        """Raise `StaleEpoch` for a master that is not the promised one, or a later one."""
        if epoch < self.epoch or (epoch == self.epoch and master != self.master):
            raise StaleEpoch(
                f"broker {master} is not master in epoch {epoch}: this replica follows broker {self.master}, master "
                f"in epoch {self.epoch}"
            )
