"""A file that is kept twice, read: one copy that the disk refuses leaves the other."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from firearrow.errors import DiskError, FileMissing, ResourceShortage
from firearrow.runtime.disk import Disk

log = logging.getLogger(__name__)


class Copies(NamedTuple):
    """What was found of each copy, and whether the disk refused one that is there."""

    contents: tuple[bytes | None, ...]
    """In the order of their names; None for one that is not there or cannot be read."""
    unreadable: DiskError | None


async def read_copies(disk: Disk, paths: Sequence[str]) -> Copies:
    """Read every copy; raise when one cannot be read and there is no other, or when it could be read later."""
    contents, unreadable = list[bytes | None](), None
    for path in paths:
        try:
            contents.append(await disk.read_whole(path))
        except FileMissing:
            contents.append(None)
        except ResourceShortage:
            raise
        except DiskError as error:
            contents.append(None)
            unreadable = error
    if unreadable is not None:
        if all(data is None for data in contents):
            raise unreadable
        log.error("%s cannot be read: %s; its other copy is read", paths[0], unreadable)
    return Copies(tuple(contents), unreadable)
