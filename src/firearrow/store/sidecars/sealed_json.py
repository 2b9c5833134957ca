"""Our own JSON files: replaced atomically, with a checksum, kept twice.

The copy is written second, so one of the two is complete at every moment; when one has rotted the other is read.
"""

from typing import TypeVar

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.sidecars.copies import read_copies
from firearrow.store.sidecars.sidecar import seal, unseal

T = TypeVar("T")


async def read_sealed(disk: Disk, path: str, kind: type[T]) -> T | None:
    """The last contents, or None when there is no good copy."""
    contents, unreadable = await read_copies(disk, (path, f"{path}.bak"))
    for data in contents:
        body = None if data is None else unseal(data)
        if body is not None:
            try:
                return msgspec.json.decode(body, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
    if unreadable is not None:
        raise unreadable
    return None


async def write_sealed(disk: Disk, path: str, contents: msgspec.Struct) -> None:
    """Replace the contents, durably."""
    data = seal(msgspec.json.encode(contents))
    await disk.replace(path, data)
    await disk.replace(f"{path}.bak", data)
