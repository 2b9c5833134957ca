"""The cost of client metrics: ``python -m benchmarks.client.metrics [rounds]``.

One producer and a broker share one process and one loop. Rounds of 64 sends at once of 1 KiB are made in turns without
metrics, with them, and without them again, so that all see the same machine and the same connection; printed are
microseconds of CPU a message, broker included, and the differences.
"""

import asyncio
import gc
import sys
import time
from statistics import mean, median

from firearrow.client import ClientMetrics, Message, Producer
from firearrow.client.producer.send_meter import SendMeter
from firearrow.runtime.loops import new_loop
from firearrow.testing import Cluster

ROUNDS = 1000
DEPTH = 64
SIZE = 1024
WARM_UP = 20


async def main(rounds: int) -> None:
    """Print what a send costs with metrics and without; the second series without shows how much chance there is."""
    message, counts = Message("cost", b"x" * SIZE), ClientMetrics().counts
    modes = None, SendMeter(counts), None
    spent: list[list[float]] = [[], [], []]
    async with Cluster() as cluster, Producer(cluster.address, send_timeout_ms=30_000, retries=1000) as producer:
        await producer.send(message)
        gc.freeze()
        for number in range(rounds + WARM_UP):
            for step in range(3):
                place = (number + step) % 3
                producer._delivery._meter = modes[place]
                before = time.process_time()
                await asyncio.gather(*(producer.send(message) for _ in range(DEPTH)))
                if number >= WARM_UP:
                    spent[place].append((time.process_time() - before) / DEPTH * 1e6)
    assert counts.sends("cost").succeeded.count == (rounds + WARM_UP) * DEPTH
    for name, of in (("mean", mean), ("median", median)):
        without, with_metrics, control = (of(times) for times in spent)
        more, chance = (with_metrics / without - 1) * 100, (control / without - 1) * 100
        figures = f"off {without:6.2f} us, on {with_metrics:6.2f} us, off again {control:6.2f} us"
        print(f"{name:6}  {figures}: metrics cost {more:+5.2f} %, chance {chance:+5.2f} %")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
