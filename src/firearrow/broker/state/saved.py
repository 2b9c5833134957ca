"""Waits until changes are durable: in a coroutine, or for several files together.

Every request for a change waits in this way, even if the table in memory already has the requested value: that value
may not be written yet, or its write may have failed. `StateFile.changed` finds out, and writes nothing if everything is
already durable.
"""

import asyncio
from collections.abc import Callable

from firearrow.broker.state.state_file import OnSaved
from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


class SaveWaiter:
    """Lets a coroutine wait for the callback of `StateFile.changed`."""

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, error: FireArrowError | None) -> None:
        """End the wait: the change is durable, or ``error`` prevented that."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(Refused(ResponseCode.SYSTEM_ERROR, f"it could not be stored: {error}"))
            self._future.exception()  # no complaint when the work ends by another failure before it waits for this one

    async def wait(self) -> None:
        """Wait until the change is durable; raise ``Refused`` when the write failed."""
        await self._future


async def keep(changed: Callable[[OnSaved], None]) -> None:
    """Wait until all noted changes of a file are durable; raise ``Refused`` when the write failed."""
    saved = SaveWaiter()
    changed(saved.tell)
    await saved.wait()


def when_all(count: int, on_saved: OnSaved) -> OnSaved:
    """Return a callback for ``count`` calls; the last call passes the first error, or None, to ``on_saved``."""
    errors: list[FireArrowError | None] = []

    def tell(error: FireArrowError | None) -> None:
        errors.append(error)
        if len(errors) == count:
            on_saved(next((one for one in errors if one is not None), None))

    return tell
