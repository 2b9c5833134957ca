"""Reading a file that is kept twice: when one copy cannot be read, the other is used."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from firearrow.errors import DiskError, FileMissing, ResourceShortage
from firearrow.runtime.disk.door import Disk

log = logging.getLogger(__name__)


class Copies(NamedTuple):
    """The contents of each copy, and the error of an existing copy that could not be read."""

    contents: tuple[bytes | None, ...]
    """In the order of the paths; None for a copy that does not exist or cannot be read."""
    unreadable: DiskError | None


async def read_copies(disk: Disk, paths: Sequence[str]) -> Copies:
    """Read every copy; raise when no copy can be read, or when a failed read may succeed later."""
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
        log.error("%s cannot be read: %s; the other copy is used", paths[0], unreadable)
    return Copies(tuple(contents), unreadable)
