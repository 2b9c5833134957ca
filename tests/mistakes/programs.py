"""Mistakes in programs. ``$name`` is a place of the run; `BEGIN` stands before each."""

from typing import Final

from tests.mistakes.case import Case

BEGIN: Final = """
import asyncio, os
from firearrow import Consumer, Message, Producer, PullConsumer, blocking, sql

def sent(*given, **options):
    async def main():
        async with Producer("$address") as producer:
            await producer.send(Message(*given, **options))
    asyncio.run(main())

def handled(handler, address="$address", **options):
    async def main():
        async with Consumer(address, **{"group": "g", "topics": "orders", **options}) as consumer:
            await consumer.run(handler)
    asyncio.run(main())
"""

MESSAGES: Final = [
    Case(
        "a body of str",
        "body",
        "str",
        ".encode()",
        code='sent("orders", "text")',
    ),
    Case(
        "a body of dict",
        "dict",
        "bytes",
        "json",
        code='sent("orders", {"id": 7})',
    ),
    Case(
        "a body of None",
        "None",
        "bytes",
        "body",
        code='sent("orders", None)',
    ),
    Case(
        "an empty body",
        "'orders'",
        "empty",
        "body",
        code='sent("orders", b"")',
    ),
    Case(
        "a body of 5 MB",
        "5000000",
        "max_message_bytes",
        "smaller",
        code='sent("orders", bytes(5_000_000))',
    ),
    Case(
        "a key that is no str",
        "[7]",
        "keys",
        "one str or several",
        code='sent("orders", b"x", keys=[7])',
    ),
    Case(
        "a key with a space",
        "order 7",
        "keys",
        "space",
        code='sent("orders", b"x", keys=["order 7"])',
    ),
    Case(
        "a topic that is no name",
        "my orders",
        "not allowed",
        "letters",
        code='sent("my orders", b"x")',
    ),
    Case(
        "a topic of None",
        "topic",
        "None",
        "str",
        code='sent(None, b"x")',
    ),
    Case(
        "a property that is no str",
        "7",
        "properties",
        "str",
        code='sent("orders", b"x", properties={"n": 7})',
    ),
    Case(
        "bytes for a message",
        "b'x'",
        "Message",
        "Message(topic, body)",
        code="""
async def main():
    async with Producer("$address") as producer:
        await producer.send(b"x")
asyncio.run(main())
""",
    ),
    Case(
        "a topic that is not there",
        "'nosuch'",
        "no name server knows",
        "create",
        code='sent("nosuch", b"x")',
    ),
    Case(
        "a delay level below nought",
        "-1",
        "delay",
        "level",
        code='sent("orders", b"x", delay_level=-1)',
    ),
    Case(
        "a delay in seconds",
        "delay=90",
        "not a duration",
        "timedelta(seconds=90)",
        code='sent("orders", b"x", delay=90)',
    ),
    Case(
        "a time of delivery without a time zone",
        "2030-12-01",
        "no time zone",
        "tzinfo=UTC",
        code='from datetime import datetime; sent("orders", b"x", deliver_at=datetime(2030, 12, 1))',
    ),
    Case(
        "a time of delivery in seconds",
        "1796112000",
        "milliseconds since 1970",
        "* 1000",
        code='sent("orders", b"x", deliver_at=1796112000)',
    ),
    Case(
        "a handle that recalls nothing",
        "None",
        "not a recall handle",
        "recall_handle of a SendResult",
        code="""
async def main():
    async with Producer("$address") as producer:
        await producer.recall("orders", None)
asyncio.run(main())
""",
    ),
]

CLIENTS: Final = [
    Case(
        "a mistyped option",
        "send_timeout",
        "not an option",
        "send_timeout_ms",
        code='Producer("$address", send_timeout=5)',
    ),
    Case(
        "an option out of bounds",
        "retries=-1",
        "not usable",
        ">= 0",
        code='Producer("$address", retries=-1)',
    ),
    Case(
        "no address",
        "no name server",
        "given",
        "host:port",
        code='Producer("")',
    ),
    Case(
        "an address without a port",
        "localhost",
        "no port",
        "host:port",
        code='Producer("localhost")',
    ),
    Case(
        "a group that is no name",
        "my group",
        "not allowed",
        "letters",
        code='Consumer("$address", group="my group", topics="orders")',
    ),
    Case(
        "a transaction without a group",
        "DEFAULT_PRODUCER",
        "group of its own",
        "group=...",
        code='Producer("$address").transaction(Message("orders", b"x"))',
    ),
    Case(
        "a transaction of a delayed message",
        "'orders'",
        "delayed",
        "leave out the delay",
        code='Producer("$address", group="g").transaction(Message("orders", b"x", delay_level=3))',
    ),
    Case(
        "a transaction of several messages",
        "Message",
        "one Message",
        "for each message",
        code='Producer("$address", group="g").transaction([Message("orders", b"x")])',
    ),
    Case(
        "a check that takes no message",
        "check",
        "argument",
        "take the message",
        code='Producer("$address", group="g", check=lambda: None)',
    ),
    Case(
        "`with` for a transaction that needs `async with`",
        "Transaction",
        "async with",
        "firearrow.blocking",
        code="""
async def main():
    async with Producer("$address", group="g") as producer:
        with producer.transaction(Message("orders", b"x")):
            pass
asyncio.run(main())
""",
    ),
    Case(
        "a producer that was not opened",
        "producer",
        "not open",
        "async with",
        code="""
asyncio.run(Producer("$address").send(Message("orders", b"x")))
""",
    ),
    Case(
        "a producer that was closed",
        "producer",
        "closed",
        "async with",
        code="""
async def main():
    async with Producer("$address") as producer:
        pass
    await producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
    Case(
        "a producer that is open already",
        "producer",
        "open already",
        "close",
        code="""
async def main():
    async with Producer("$address") as producer:
        await producer.open()
asyncio.run(main())
""",
    ),
    Case(
        "`with` for `async with`",
        "Producer",
        "async with",
        "firearrow.blocking",
        code="""
with Producer("$address") as producer:
    pass
""",
    ),
    Case(
        "a producer of another event loop",
        "producer",
        "loop",
        "open",
        code="""
producer = Producer("$address")
async def first():
    await producer.open()
    await producer.send(Message("orders", b"x"))
asyncio.run(first())
asyncio.run(producer.send(Message("orders", b"x")))
""",
    ),
    Case(
        "a fork after opening",
        "producer",
        "process",
        "after the fork",
        code="""
async def main():
    async with Producer("$address") as producer:
        await producer.send(Message("orders", b"x"))
        if os.fork() == 0:
            await producer.send(Message("orders", b"x"))
        else:
            os.wait()
asyncio.run(main())
""",
    ),
    Case(
        "a fork after opening, without await",
        "process",
        "fork",
        "open",
        code="""
with blocking.Producer("$address") as producer:
    producer.send(Message("orders", b"x"))
    if os.fork() == 0:
        producer.send(Message("orders", b"x"))
    else:
        os.wait()
""",
    ),
    Case(
        "the blocking client inside a coroutine",
        "blocking",
        "running event loop",
        "await",
        code="""
async def main():
    with blocking.Producer("$address") as producer:
        producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
    Case(
        "an address at which nobody listens",
        "127.0.0.1:1",
        "orders",
        "address",
        code="""
async def main():
    async with Producer("127.0.0.1:1") as producer:
        await producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
    Case(
        "TLS to a server that speaks plaintext",
        "127.0.0.1:$http",
        "TLS",
        "tls",
        code="""
from firearrow.runtime.tls_settings import ClientTls
async def main():
    async with Producer("127.0.0.1:$http", tls=ClientTls(enabled=True)) as producer:
        await producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
    Case(
        "plaintext to a server that speaks TLS alone",
        "$tls",
        "TLS",
        "tls",
        code="""
async def main():
    async with Producer("$tls") as producer:
        await producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
    Case(
        "the port of a web server",
        "127.0.0.1:$web",
        "HTTP",
        "check the address",
        code="""
async def main():
    async with Producer("127.0.0.1:$web") as producer:
        await producer.send(Message("orders", b"x"))
asyncio.run(main())
""",
    ),
]

CONSUMERS: Final = [
    Case(
        "a consumer of another event loop",
        "consumer",
        "loop",
        "open",
        code="""
consumer = Consumer("$address", group="g", topics="orders")
asyncio.run(consumer.open())
asyncio.run(consumer.run(print))
""",
    ),
    Case(
        "no topics",
        "topics",
        "no topic",
        "topics=",
        code="handled(print, topics=[])",
    ),
    Case(
        "a list of tags",
        "'orders'",
        "expression",
        "||",
        code='handled(print, topics={"orders": ["a"]})',
    ),
    Case(
        "a topic that is not there, for a consumer",
        "'nosuch'",
        "no name server knows",
        "create",
        code='handled(print, topics="nosuch")',
    ),
    Case(
        "a filter that brokers would not read to its end",
        "LIKE '1%'",
        "ignore",
        "STARTSWITH",
        code='handled(print, topics={"orders": sql("price LIKE \'1%\'")})',
    ),
    Case(
        "an address at which nobody listens, for a consumer",
        "127.0.0.1:1",
        "orders",
        "address",
        code='handled(print, "127.0.0.1:1")',
    ),
    Case(
        "no handler",
        "None",
        "handler",
        "function",
        code="handled(None)",
    ),
    Case(
        "a handler without an argument",
        "handle",
        "one argument",
        "message",
        code="""
def handle(): pass
handled(handle)
""",
    ),
    Case(
        "a handler that was called",
        "handler",
        "function",
        "name alone",
        code="""
async def handle(message): pass
handled(handle(1))
""",
    ),
    Case(
        "a handler that fails",
        "ValueError",
        "orders",
        "is delivered again",
        code="""
sent("orders", b"x", tag="bad")
def handle(message): raise ValueError("no such order")
handled(handle, topics={"orders": "bad"}, start="first")
""",
    ),
    Case(
        "a start that is none",
        "start",
        "newest",
        "last",
        code='handled(print, start="newest")',
    ),
]

PROGRAMS: Final = [*MESSAGES, *CLIENTS, *CONSUMERS]
