"""The epoch file: the history of the log, in Apache's layout, written whole or not at all.

``epochFileCheckpoint`` in the directory of the store is text, and ``epochFileCheckpoint.bak`` is its copy::

    2                     the number of epochs
    773307083             CRC-32 of the lines below, without its highest bit; 0 is not checked
    7-7000                epoch and start offset, a line for each
    8-8000

The copy is written second, so one of the two is complete at every moment. An epoch is in the file before the first
byte of the log that was written in it: else those bytes would count as written by the master before, and two logs with
different bytes as equal. Java: ``CheckpointFile``, ``EpochFileCache``.
"""

from typing import Final
from zlib import crc32

from firearrow.errors import DiskError
from firearrow.model.epochs import Epoch, Epochs
from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import EPOCHS
from firearrow.store.sidecars.copies import read_copies

COPIES: Final = (EPOCHS, f"{EPOCHS}.bak")
_NOT_CHECKED: Final = 0
_LONGEST_NUMBER: Final = 20


def encode_epochs(epochs: Epochs) -> bytes:
    """The bytes of the file."""
    lines = b"".join(b"%d-%d\n" % (entry.epoch, entry.start_offset) for entry in epochs.entries)
    return b"%d\n%d\n%b" % (len(epochs.entries), crc32(lines) & 0x7FFFFFFF, lines)


def decode_epochs(data: bytes) -> Epochs | None:
    """The history in the bytes of a file; None when they are not whole."""
    count, first, rest = data.partition(b"\n")
    checksum, second, lines = rest.partition(b"\n")
    if not (first and second and _is_number(count) and _is_number(checksum)):
        return None
    if int(checksum) != _NOT_CHECKED and int(checksum) != crc32(lines) & 0x7FFFFFFF:
        return None
    entries = [line.split(b"-") for line in lines.split(b"\n") if line]
    if len(entries) != int(count) or not all(len(entry) == 2 and all(map(_is_number, entry)) for entry in entries):
        return None
    try:
        return Epochs(tuple(Epoch(int(epoch), int(start)) for epoch, start in entries))
    except ValueError:
        return None


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _LONGEST_NUMBER


class EpochFile:
    """The history of a log on disk. A change counts once it is durable."""

    def __init__(self, disk: Disk, epochs: Epochs) -> None:
        self._disk = disk
        self.epochs = epochs

    @classmethod
    async def load(cls, disk: Disk) -> "EpochFile":
        """Read the history; empty when there is no file. Raise when there are files and none is whole."""
        contents, unreadable = await read_copies(disk, COPIES)
        found = [None if data is None else decode_epochs(data) for data in contents]
        good = [epochs for epochs in found if epochs is not None]
        if not good and any(data is not None for data in contents):
            raise unreadable or DiskError(
                f"{EPOCHS} and its copy are damaged, so it is not known which master wrote which part of the log; copy "
                "the file of another replica of the group whose log is the same, or empty the directory and let the "
                "broker copy the log again"
            )
        file = cls(disk, good[0] if good else Epochs())
        if good and found != [good[0]] * len(COPIES):
            await file._write(good[0])
        return file

    async def begin(self, epoch: int, start_offset: int) -> None:
        """Note, durably, that a master began to write at an offset; nothing happens when that is known."""
        if Epoch(epoch, start_offset) != self.epochs.last:
            await self._write(self.epochs.begun(epoch, start_offset))

    async def replace(self, epochs: Epochs) -> None:
        """Put another history in place, durably; nothing happens when it is the same."""
        if epochs != self.epochs:
            await self._write(epochs)

    async def _write(self, epochs: Epochs) -> None:
        data = encode_epochs(epochs)
        for path in COPIES:
            await self._disk.replace(path, data)
        self.epochs = epochs
