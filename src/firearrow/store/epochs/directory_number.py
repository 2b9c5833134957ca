"""The number of a directory: drawn by lot when a replica first uses it, and kept in it.

A broker id says which replica a machine is, and the number whether it has that replica's files. A machine that comes
back after its replica was given to another machine has the id and not the number: it may lack what was acknowledged.
"""

import random
from typing import Final

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import OURS
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed

DIRECTORY: Final = f"{OURS}/directory.json"
_BITS: Final = 62


class _NumberContents(msgspec.Struct):
    number: int


async def directory_number(disk: Disk, chance: random.Random) -> int:
    """Return the number of a directory, durably drawn where there is none; damage makes a directory a new one."""
    contents = await read_sealed(disk, DIRECTORY, _NumberContents)
    if contents is None:
        contents = _NumberContents(1 + chance.getrandbits(_BITS))
        await write_sealed(disk, DIRECTORY, contents)
    return contents.number
