"""A broker with a given boot id and, on demand, a planted bug that a campaign must catch.

`program` is what Python runs in place of the command::

    FireArrowBroker(..., program=program("boot-7", "ack-before-sync"))

Defects: ``ack-before-sync`` answers a send once it is written, under SYNC_FLUSH too. Its disk is made slow: the time
between the answer and the sync is what a cut must hit.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import IO, Any, Literal

from firearrow.broker.gate.waiting_answers import Acks
from firearrow.runtime import machine
from firearrow.runtime.disk.real_file import RealFile
from firearrow.store.placement import WRITTEN

Mutant = Literal["", "ack-before-sync"]
SLOW_SYNC_S = 0.05


def program(boot_id: str, mutant: Mutant = "") -> str:
    """Python source that runs the command so changed."""
    return (
        "from firearrow.cli import main; from campaigns.broker.planted import plant; "
        f"kept = plant({boot_id!r}, {mutant!r}); main()"
    )


def plant(boot_id: str, mutant: Mutant) -> IO[str]:
    """Change what this process will run; the file that is answered holds the boot id and must be kept open."""
    file = tempfile.NamedTemporaryFile("w", prefix="firearrow-boot-")  # noqa: SIM115  # open while the command runs
    file.write(boot_id)
    file.flush()
    vars(machine)["BOOT_ID"] = Path(file.name)
    if mutant == "ack-before-sync":
        _answer_when_written()
        _slow_down()
    return file


def _answer_when_written() -> None:
    made = Acks.__init__

    def init(self: Acks, log: Any, _level: Any, *rest: Any, **named: Any) -> None:  # noqa: ANN401
        made(self, log, WRITTEN, *rest, **named)

    setattr(Acks, "__init__", init)  # noqa: B010 - the type checker must not follow a planted bug


def _slow_down() -> None:
    sync = RealFile.sync

    async def slowly(self: RealFile) -> None:
        await asyncio.sleep(SLOW_SYNC_S)
        await sync(self)

    RealFile.sync = slowly  # type: ignore[method-assign]
