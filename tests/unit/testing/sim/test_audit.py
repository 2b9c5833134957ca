"""Simulated code that reaches past the doors fails its run."""

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from firearrow.testing.sim.audit import ForbiddenEffect
from firearrow.testing.sim.world import World

EFFECTS: dict[str, Callable[[], object]] = {
    "open": lambda: Path(__file__).read_text(),
    "list": lambda: os.listdir("."),
    "unlink": lambda: os.unlink("no-such-file"),
    "socket": lambda: socket.create_connection(("127.0.0.1", 9)),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "thread": lambda: threading.Thread(target=print).start(),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_outside_effect_fails_the_run(effect: str) -> None:
    async def scenario(_: World) -> None:
        EFFECTS[effect]()

    with pytest.raises(ForbiddenEffect, match="reached past the doors"):
        World(1).run(scenario)


def test_swallowing_the_error_does_not_help() -> None:
    async def scenario(_: World) -> None:
        with contextlib.suppress(Exception):
            os.listdir(".")

    with pytest.raises(ForbiddenEffect, match="listdir"):
        World(1).run(scenario)


def test_imports_are_fine_and_the_hook_is_off_outside() -> None:
    async def scenario(_: World) -> str:
        import wave

        await asyncio.sleep(0)
        return wave.__name__

    assert World(1).run(scenario) == "wave"
    assert Path(__file__).exists()
