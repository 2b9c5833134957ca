"""A thousand sends at once: each is acknowledged by itself; with lingering those that wait together share requests."""

import asyncio
import os

from firearrow import Message, Producer

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")
COUNT = 1000


async def send(linger_ms: float) -> tuple[int, float]:
    """Send them all; return how many are stored, and the seconds it took."""
    loop = asyncio.get_running_loop()
    async with Producer(ADDRESS, group="example", linger_ms=linger_ms, send_timeout_ms=30_000) as producer:
        await producer.send(Message.of("many", b"warm"))
        begun = loop.time()
        results = await asyncio.gather(*(producer.send(Message.of("many", b"%d" % n)) for n in range(COUNT)))
        return len({result.offset_message_id for result in results}), loop.time() - begun


async def main() -> None:
    """Both ways."""
    for linger_ms in (0, 2):
        stored, seconds = await send(linger_ms)
        print(f"linger {linger_ms} ms: {stored} stored, {stored / seconds:,.0f} a second")


asyncio.run(main())
