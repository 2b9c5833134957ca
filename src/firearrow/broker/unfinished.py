"""Refuses to serve a store with state that only Apache's broker can finish.

This broker does not process half messages, timed messages and pop check-points that Apache's broker left in the files:
they would never be delivered, and no error would say so.
"""

import logging

from firearrow.errors import NotNow
from firearrow.runtime.disk.door import Disk
from firearrow.store.outside.messages import OpenMessages
from firearrow.store.outside.pending import count_pending
from firearrow.store.store import Store

log = logging.getLogger(__name__)


async def refuse_pending(disk: Disk, store: Store, directory: str, *, opens: bool) -> None:
    """Raise ``NotNow`` when a store holds pending state of Apache's broker; with ``opens`` only warn."""
    pending = await count_pending(disk, OpenMessages(store))
    if not pending:
        return
    found = f"the store{' in ' * bool(directory)}{directory} holds {pending}, begun by Apache's broker"
    if not opens:
        raise NotNow(
            f"{found}. This broker does not serve transactions, timed messages and pop yet: they would wait for ever. "
            "Let Apache's broker run on the directory until they are committed, rolled back, due or acknowledged, stop "
            "it, and start this one again; or set openWithPendingState=true to open it without them"
        )
    log.warning(
        "%s, and is opened all the same (openWithPendingState): none of them is delivered or asked about here; they "
        "stay for Apache's broker until the files of the log that hold them are deleted for their age",
        found,
        extra={"half_messages": pending.half_messages, "timers": pending.timers, "pops": pending.check_points},
    )
