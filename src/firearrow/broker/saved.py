"""Waiting for changes to be durable: by a coroutine, or for several files together.

Whoever asks for a change is answered through one of these, also where memory has it so already: what is in memory may
still be on its way to the disk, or have found no space there. `StateFile.changed` tells that, and writes nothing where
everything is written.
"""

import asyncio
from collections.abc import Callable

from firearrow.broker.statefile import OnSaved
from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


class Saved:
    """Lets a coroutine wait for what `StateFile` tells a callback."""

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, error: FireArrowError | None) -> None:
        """It is durable, or could not be made so."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(Refused(ResponseCode.SYSTEM_ERROR, f"it could not be stored: {error}"))

    async def wait(self) -> None:
        """Return when it is durable; raise ``Refused`` when that failed."""
        await self._future


async def keep(changed: Callable[[OnSaved], None]) -> None:
    """Return when everything that a file was told of is durable; raise ``Refused`` when that failed."""
    saved = Saved()
    changed(saved.tell)
    await saved.wait()


def when_all(count: int, on_saved: OnSaved) -> OnSaved:
    """What is to be called ``count`` times; at the last ``on_saved`` is told the first error, if there was one."""
    errors: list[FireArrowError | None] = []

    def tell(error: FireArrowError | None) -> None:
        errors.append(error)
        if len(errors) == count:
            on_saved(next((one for one in errors if one is not None), None))

    return tell
