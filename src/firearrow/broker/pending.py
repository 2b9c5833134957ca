"""Refuses to serve a store in which Apache's broker has begun what only Apache's broker can finish.

Half messages, timed messages and pop check-points lie in the files as Apache left them, and nobody here would ever look
at them again: whoever waits for them would wait in silence.
"""

import logging

from firearrow.errors import NotNow
from firearrow.runtime.disk import Disk
from firearrow.store.kept import OpenMessages
from firearrow.store.pending import count_pending
from firearrow.store.store import Store

log = logging.getLogger(__name__)


async def refuse_pending(disk: Disk, store: Store, directory: str, *, opens: bool) -> None:
    """Raise ``NotNow`` when something is pending in a store, or warn when it ``opens`` all the same."""
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
