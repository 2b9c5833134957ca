"""Refuses to serve a store with state that only Apache's broker can finish.

This broker does not process pop check-points that Apache's broker left in the files, nor timed messages when
``timerWheelEnable`` is false: they would never be delivered, and no error would say so. It goes on with half messages.
"""

import logging

from msgspec.structs import replace

from firearrow.errors import NotNow
from firearrow.runtime.disk.door import Disk
from firearrow.store.inspection.messages import OpenMessages
from firearrow.store.inspection.pending import count_pending
from firearrow.store.store import Store

log = logging.getLogger(__name__)


async def refuse_pending(disk: Disk, store: Store, directory: str, *, opens: bool, timers: bool) -> None:
    """Raise ``NotNow`` when a store holds pending state of Apache's broker; with ``opens`` only warn.

    ``timers`` says that this broker delivers timed messages.
    """
    pending = replace(await count_pending(disk, OpenMessages(store), delivers_timers=timers), half_messages=0)
    if timers:
        pending = replace(pending, timers=0)
    if not pending:
        return
    found = f"the store{' in ' * bool(directory)}{directory} holds {pending}, begun by Apache's broker"
    if not opens:
        raise NotNow(
            f"{found}. This broker does not serve pop yet, nor timed messages while timerWheelEnable is false: they "
            "would wait for ever. Let Apache's broker run on the directory until they are due or acknowledged, stop "
            "it, and start this one again; or set openWithPendingState=true to open it without them"
        )
    log.warning(
        "%s, and is opened all the same (openWithPendingState): none of them is delivered here; they "
        "stay for Apache's broker until the files of the log that hold them are deleted for their age",
        found,
        extra={"timers": pending.timers, "pops": pending.check_points},
    )
