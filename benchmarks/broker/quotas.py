"""The cost of quotas for a send: ``python -m benchmarks.broker.quotas [messages]``.

Brokers as in ``benchmarks.broker``, 128 bytes a message, 64 at once and one at a time: without a throttle, with one and
no limit (the default), with a limit of one kind, and with all eight limits; none of them is ever reached. Printed are
microseconds of CPU a message, client included.
"""

import asyncio
import gc
import os
import platform
import sys
import time
from statistics import median
from typing import Final
from unittest.mock import patch

from msgspec.structs import replace

from benchmarks.broker.__main__ import LOOPBACK, MESSAGES, PROPERTIES, QUEUES, Client
from benchmarks.broker.serving import serving
from campaigns.samples import SEND
from firearrow.broker.settings.config import BrokerSettings
from firearrow.protocol.command import Encoding
from firearrow.protocol.serialize import encode_request
from firearrow.quotas.settings import RATE_MAX, Measure, QuotaConfig, QuotaKind
from firearrow.quotas.throttle import Throttle
from firearrow.runtime.loops import new_loop

DEPTHS: Final = (64, 1)
REPEATS: Final = 7
SIZE: Final = 128
BASE: Final = "no throttle"
ALL: Final = {f"quota_{kind}_{measure}": RATE_MAX for kind in QuotaKind for measure in Measure}
"""User limits among them, which count for nobody here."""
CASES: Final = {
    BASE: QuotaConfig(),
    "no limit": QuotaConfig(),
    "bytes of topics": QuotaConfig(quota_topic_bytes=RATE_MAX),
    "all limits": replace(QuotaConfig(), **ALL),
}


def frames(depth: int) -> bytes:
    """The sends of a round."""
    parts = []
    for number in range(depth):
        body = f"{number:08}".encode() + b"x" * (SIZE - 8)
        request = replace(SEND, topic="bench", queue_id=number % QUEUES, properties=PROPERTIES)
        parts += [encode_request(Encoding.JSON, request, number, body_size=len(body)), body]
    return b"".join(parts)


async def measure(quotas: QuotaConfig, depth: int, messages: int) -> float:
    """Send in rounds to a new broker; return microseconds a message."""
    data = frames(depth)
    async with serving(BrokerSettings(quotas=quotas)) as (_, port):
        gc.freeze()
        transport, client = await asyncio.get_running_loop().create_connection(Client, LOOPBACK, port)
        before = time.process_time()
        for _ in range(messages // depth):
            await client.exchange(data, depth)
        spent = time.process_time() - before
        transport.close()
    return spent / (messages // depth * depth) * 1e6


async def main(messages: int) -> None:
    """Print the table: every case once in every repeat, and the repeats' median, with the best and the worst."""
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {REPEATS} repeats")
    for depth in DEPTHS:
        print(f"{depth} at once           us a message, median (best to worst)      of {BASE}")
        found: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(REPEATS):
            for name, quotas in CASES.items():
                with patch.object(Throttle, "before", (lambda _, it: it) if name == BASE else Throttle.before):
                    found[name].append(await measure(quotas, depth, messages))
        for name, costs in found.items():
            ratio = median(cost / base for cost, base in zip(costs, found[BASE], strict=True))
            print(f"{name:18} {median(costs):20.1f} ({min(costs):.1f} to {max(costs):.1f}) {ratio:23.2f}", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))
