"""Rounds of sends to brokers in turns, so that all see the same machine, and what they cost beside each other."""

import asyncio
import gc
import time
from collections.abc import Sequence
from statistics import mean, median

from benchmarks.broker.__main__ import LOOPBACK, Client, frames
from firearrow.protocol.command import Encoding

DEPTH = 64
SIZE = 1024
WARM_UP = 20


async def rounds_in_turns(rounds: int, ports: Sequence[int], pause_s: float | None = None) -> list[list[float]]:
    """Send rounds to brokers of this process in turns; return microseconds of CPU a message, for each broker."""
    gc.freeze()
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, LOOPBACK, port))[1] for port in ports]
    data = frames(Encoding.JSON, b"x" * SIZE, DEPTH)
    spent: list[list[float]] = [[] for _ in ports]
    for number in range(rounds + WARM_UP):
        for step in range(len(ports)):
            place = (number + step) % len(ports)
            before = time.process_time()
            await clients[place].exchange(data, DEPTH)
            if number >= WARM_UP:
                spent[place].append((time.process_time() - before) / DEPTH * 1e6)
            if pause_s is not None:
                await asyncio.sleep(pause_s)
    return spent


def print_difference(spent: Sequence[Sequence[float]], names: tuple[str, str], what: str) -> None:
    """Print what a broker costs more than one without ``what``, and how far a second one without it is from that."""
    without_name, with_name = names
    for name, of in (("mean", mean), ("median", median)):
        without, with_it, control = (of(times) for times in spent)
        more, chance = (with_it / without - 1) * 100, (control / without - 1) * 100
        figures = (
            f"{without_name} {without:6.2f} us, {with_name} {with_it:6.2f} us, {without_name} again {control:6.2f} us"
        )
        print(f"{name:6}  {figures}: {what} {more:+5.2f} %, chance {chance:+5.2f} %")
