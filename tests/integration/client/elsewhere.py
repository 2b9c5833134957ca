"""The client on a system that lacks what only some systems have: ``python -m ... NAME_SERVER TOPIC``.

Taken away before anything is imported: ``fcntl``, ``resource``, ``uvloop`` and others, positional reads and writes,
``fdatasync``, ``fork``, and the loop's signal handlers and readers. Everything that a client offers is then used once.
"""

import asyncio
import os
import socket
import sys

ABSENT_MODULES = ("fcntl", "resource", "uvloop", "pwd", "grp", "termios", "lz4", "zstandard")
ABSENT_CALLS = ("pread", "pwrite", "preadv", "pwritev", "fdatasync", "posix_fallocate", "fork", "getuid", "geteuid")
ABSENT_OPTIONS = ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
ABSENT_METHODS = ("add_signal_handler", "remove_signal_handler", "add_reader", "remove_reader", "add_writer")


def take_away() -> None:
    """Make this system poorer."""
    for name in ABSENT_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in ABSENT_CALLS:
        if hasattr(os, name):
            delattr(os, name)
    for name in ABSENT_OPTIONS:
        delattr(socket, name)

    def absent(*_: object, **__: object) -> None:
        raise NotImplementedError

    for name in ABSENT_METHODS:
        setattr(asyncio.SelectorEventLoop, name, absent)


async def use(names: str, topic: str) -> None:
    """Everything on the loop."""
    from firearrow.client import Consumer, Message, Producer, PullConsumer, ReceivedMessage

    async with Producer(names, group="P") as producer:
        for number in range(20):
            assert (await producer.send(Message.of(topic, b"%d" % number, keys=[str(number)]))).is_ok
        await producer.send_batch([Message.of(topic, b"x" * 10_000) for _ in range(5)])
    for broadcasting in (False, True):
        seen = 0
        group = f"G-{topic}-{broadcasting}"
        async with Consumer(names, group=group, topics=topic, start="first", broadcasting=broadcasting) as consumer:

            async def handle(_message: ReceivedMessage) -> None:
                nonlocal seen
                seen += 1
                if seen == 25:
                    consumer.stop()

            await consumer.run(handle)
    async with PullConsumer(names, group="pull") as puller:
        bounds = await puller.bounds(topic)
        assert sum(each.end for each in bounds.values()) == 25


def use_blocking(names: str, topic: str) -> None:
    """The twin, with handlers in threads."""
    from firearrow.blocking import Consumer, Message, Producer, ReceivedMessage

    with Producer(names, group="P") as producer:
        producer.send(Message.of(topic, b"y"))
    seen = []
    with Consumer(names, group=f"T-{topic}", topics=topic, start="first") as consumer:

        def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)
            if len(seen) == 26:
                consumer.stop()

        consumer.run(handle)


if __name__ == "__main__":
    take_away()
    asyncio.run(use(*sys.argv[1:3]))
    use_blocking(*sys.argv[1:3])
    print("all of it")
