"""A broker that believes another start of the machine, and, if told to, has a defect that a campaign must catch.

`program` is what Python runs in place of the command::

    FireArrowBroker(..., program=program("boot-7", "ack-before-sync"))

Defects: ``ack-before-sync`` answers a send once it is written, under SYNC_FLUSH too. Its disk is made slow: the time
between the answer and the sync is what a cut must hit.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Literal

from firearrow.broker.handlers import send
from firearrow.cli import main
from firearrow.runtime import machine
from firearrow.runtime.realfile import RealFile
from firearrow.store.placement import WRITTEN

Mutant = Literal["", "ack-before-sync"]
SLOW_SYNC_S = 0.05


def program(boot_id: str, mutant: Mutant = "") -> str:
    """Python source that runs the command so changed."""
    return f"from firearrow.testing.brokercheck.planted import start; start({boot_id!r}, {mutant!r})"


def start(boot_id: str, mutant: Mutant) -> None:
    """Run the command line."""
    with tempfile.NamedTemporaryFile("w", prefix="firearrow-boot-") as file:
        file.write(boot_id)
        file.flush()
        vars(machine)["BOOT_ID"] = Path(file.name)
        if mutant == "ack-before-sync":
            vars(send)["FLUSHED"] = WRITTEN
            _slow_down()
        main()


def _slow_down() -> None:
    sync = RealFile.sync

    async def slowly(self: RealFile) -> None:
        await asyncio.sleep(SLOW_SYNC_S)
        await sync(self)

    RealFile.sync = slowly  # type: ignore[method-assign]
