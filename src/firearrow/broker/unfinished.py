"""Refuses to serve a store with state that only Apache's broker can finish.

This broker does not process timed messages and pop check-points that Apache's broker left in the files: they would
never be delivered, and no error would say so. It goes on with half messages.
"""

import logging

from msgspec.structs import replace

from firearrow.errors import NotNow
from firearrow.runtime.disk.door import Disk
from firearrow.store.outside.messages import OpenMessages
from firearrow.store.outside.pending import count_pending
from firearrow.store.store import Store

log = logging.getLogger(__name__)


async def refuse_pending(disk: Disk, store: Store, directory: str, *, opens: bool) -> None:
    """Raise ``NotNow`` when a store holds pending state of Apache's broker; with ``opens`` only warn."""
    pending = replace(await count_pending(disk, OpenMessages(store)), half_messages=0)
    if not pending:
        return
    found = f"the store{' in ' * bool(directory)}{directory} holds {pending}, begun by Apache's broker"
    if not opens:
        raise NotNow(
            f"{found}. This broker does not serve timed messages and pop yet: they would wait for ever. "
            "Let Apache's broker run on the directory until they are due or acknowledged, stop it, and start this one "
            "again; or set openWithPendingState=true to open it without them"
        )
    log.warning(
        "%s, and is opened all the same (openWithPendingState): none of them is delivered here; they "
        "stay for Apache's broker until the files of the log that hold them are deleted for their age",
        found,
        extra={"timers": pending.timers, "pops": pending.check_points},
    )
