"""``firearrow bench``: what a cluster takes and gives a second, and how long messages are on their way."""

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import to_builtins

from firearrow.cli.cluster import AsJson, NameServers, name_servers, reach_of, run
from firearrow.cli.tables import print_json, print_table
from firearrow.errors import FireArrowError

if TYPE_CHECKING:
    from firearrow.cli.messages.load import Figures

GROUP: Final = "firearrow-bench"
PATIENCE_MS: Final = 15_000
PATIENCE_S: Final = 30.0

bench = typer.Typer(
    add_completion=False, help="Measure a cluster: sends, reads, and the way of a message.", no_args_is_help=True
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic; one of its own is best.")]
Count = Annotated[int, typer.Option("--count", "-c", min=1, help="How many messages.")]
Size = Annotated[int, typer.Option("--size", "-s", min=0, help="Bytes of a body.")]


@bench.command("produce")
def bench_produce(
    context: typer.Context,
    topic: Topic,
    count: Count = 10_000,
    size: Size = 128,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="Messages in a request.")] = 1,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests that wait for their answers at once.")] = 64,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Send messages as fast as brokers take them. Waits are those of requests."""
    where, reach = name_servers(context, servers), reach_of(context)

    async def measured() -> "Figures":
        from firearrow.cli.messages.load import Load, sent
        from firearrow.client import Producer

        async with Producer(where, group=GROUP, send_timeout_ms=PATIENCE_MS, **reach) as producer:
            return await sent(producer, Load(topic, count, size, batch, in_flight))

    _show(context, f"Sends to {topic}", measured, as_json=as_json)


@bench.command("consume")
def bench_consume(
    context: typer.Context, topic: Topic, count: Count = 1_000_000, servers: NameServers = "", as_json: AsJson = False
) -> None:
    """Read stored messages as fast as brokers give them, without a group. Waits are those of pulls."""
    where, reach = name_servers(context, servers), reach_of(context)

    async def measured() -> "Figures":
        from firearrow.cli.messages.load import read
        from firearrow.client import PullConsumer

        async with PullConsumer(where, group=GROUP, **reach) as consumer:
            return await read(consumer, topic, count)

    _show(context, f"Reads of {topic}", measured, as_json=as_json)


@bench.command("latency")
def bench_latency(
    context: typer.Context,
    topic: Topic,
    count: Count = 1_000,
    size: Size = 128,
    rate: Annotated[float, typer.Option(min=0.1, help="Messages a second.")] = 200.0,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Send messages at a rate, one after the other, and time each from its send to its arrival in this process."""
    where, reach = name_servers(context, servers), reach_of(context)

    async def measured() -> "Figures":
        from firearrow.cli.messages.load import Load, travelled
        from firearrow.client import Producer, PullConsumer

        mark = random.Random().randbytes(16)
        async with (
            Producer(where, group=GROUP, send_timeout_ms=PATIENCE_MS, **reach) as producer,
            PullConsumer(where, group=GROUP, **reach) as consumer,
        ):
            load = Load(topic, count, size)
            return await travelled(producer, consumer, load, rate=rate, mark=mark, patience_s=PATIENCE_S)

    _show(context, f"Messages through {topic}", measured, as_json=as_json)


def _show(context: typer.Context, title: str, measured: "Callable[[], Awaitable[Figures]]", *, as_json: bool) -> None:
    async def found() -> "Figures":
        try:
            return await measured()
        except ExceptionGroup as group:
            failed = group.subgroup(FireArrowError)
            raise group if failed is None else failed.exceptions[0] from None

    result = run(context, found)
    if as_json:
        print_json(result)
        return
    fields = to_builtins(result)
    names = {
        "messages": "messages",
        "seconds": "seconds",
        "messagesPerSecond": "messages/s",
        "megabytesPerSecond": "MB/s",
        "p50Ms": "p50 ms",
        "p99Ms": "p99 ms",
        "maxMs": "max ms",
    }
    print_table(title, list(names.values()), [[fields[name] for name in names]])
