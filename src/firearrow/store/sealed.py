"""Our own JSON files: replaced atomically, sealed with a checksum, kept twice.

The copy is written second, so at every moment one of the two is whole; when rot breaks a seal the other is read.
"""

from typing import TypeVar

import msgspec

from firearrow.runtime.disk import Disk
from firearrow.store.copies import read_copies
from firearrow.store.sidecar import seal, unseal

T = TypeVar("T")


async def read_sealed(disk: Disk, path: str, kind: type[T]) -> T | None:
    """What was last written, or None when there is no whole copy."""
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
    """Put new contents in place, durably."""
    data = seal(msgspec.json.encode(contents))
    await disk.replace(path, data)
    await disk.replace(f"{path}.bak", data)
