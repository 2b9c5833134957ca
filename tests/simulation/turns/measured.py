"""The longest steps of a broker at a size: every request once, every planted loop once, then every job."""

import asyncio
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.size.every_request import asked_of, deletions, place
from benchmarks.size.filled import Shape
from firearrow.broker import registration
from firearrow.broker.delivery import notices
from firearrow.broker.handlers.message import pull
from firearrow.broker.state import state_file
from firearrow.broker.statistics import counters, history
from firearrow.broker.tables import offset_parts, offset_rows
from firearrow.remoting import endpoint
from firearrow.testing.sim.world import World
from tests.simulation.turns.plants import PLANTS
from tests.simulation.turns.stage import CABLES, DISKS, JOBS_S, Stage
from tests.simulation.turns.work import Steps

SMALL: Final = 100
LARGE: Final = 4 * SMALL
WARM: Final = 20
"""The size of a broker that runs before, so that nothing is made for the first time while work is counted."""
PIECES: Final[list[tuple[Any, str, int]]] = [
    (pull, "TAKEN_AT_ONCE", 20),
    (endpoint, "CHECKED_AT_ONCE", 50),
    (notices, "AT_ONCE", 20),
    (state_file, "ROWS_AT_ONCE", 50),
    (offset_rows, "ROWS_AT_ONCE", 50),
    (offset_parts, "ROWS_AT_ONCE", 50),
    (counters, "ROWS_AT_ONCE", 20),
    (history, "ROWS_AT_ONCE", 20),
    (registration, "PART_TOPICS", 50),
]
"""Pieces of a fixed number of things, made smaller than the tables of the small broker."""


class Found(NamedTuple):
    """The longest steps of one run."""

    steps: Steps
    asked: frozenset[int]
    idle_tasks: list[str]


@cache
def measured(size: int) -> Found:
    """Return the longest steps of a broker whose tables have this size, act by act."""
    if size != WARM:
        measured(WARM)

    async def tell(world: World) -> Found:
        stage = Stage(world, Shape.of(size))
        await stage.open()
        placed = await place(stage.caller, stage.broker.address)
        with stage.work.counting():
            for asked in asked_of(stage.shape, placed):
                await stage.ask(asked)
            for name, plant in PLANTS.items():
                with pytest.MonkeyPatch.context() as patch, stage.work.act(name):
                    plant.put(patch, stage)
                    await plant.act(stage)
            with stage.work.act("a connection with many pulls ends"):
                await stage.filler.park(5_000)
                stage.filler.members.pop().transport.close()
                await asyncio.sleep(1.0)
            await stage.jobs(JOBS_S)
            for asked in deletions():
                await stage.ask(asked)
            await stage.jobs(2.0)
            return Found(stage.work.steps, frozenset(stage.asked), stage.idle_tasks())

    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in PIECES:
            patch.setattr(module, name, value)
        return World(1, links=CABLES, disks=DISKS).run(tell)
