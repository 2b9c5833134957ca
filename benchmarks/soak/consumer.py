"""One member of a group with our client: `python -m benchmarks.soak.consumer NAME_SERVER TOPIC FILE GROUP`.

Writes the records of `java/Soak.java`, each before its message is acknowledged. SIGTERM ends it in order.
"""

import asyncio
import logging
import os
import signal
import sys
import time

from firearrow import Consumer
from firearrow.client import ReceivedMessage
from firearrow.runtime.loops import new_loop


async def consume(name_server: str, topic: str, file: str, group: str) -> None:
    """Until told to end."""
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def handle(message: ReceivedMessage) -> None:
        os.write(output, message.body[:16] + time.monotonic_ns().to_bytes(8, "big"))

    async with Consumer(name_server, group=group, topics=topic, start="first") as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        print("started", flush=True)
        await consumer.run(handle)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(consume(*sys.argv[1:5]))
