"""The stock clients, each one process that sends and receives on demand.

    with JudgeProcess("go") as process:
        judge = process.at("127.0.0.1:9876")
        sent = judge.send("orders", 1000, tags=["A", "B"], keys=True)
        judge.receive("orders", 500, expression="A").assert_exactly(sent.where(lambda i: i % 2 == 0))

A consumer that runs while something else happens: `with judge.subscribe(...) as running: ...
running.collect(5)`.
"""

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

import msgspec

from judges.conversation import Conversation
from judges.install.artifacts import BY_NAME_ONLY, all_artifacts, cpp_judge, go_judge, node_judge, rust_judge
from judges.install.java import JavaProgram
from judges.install.toolchain import tool
from judges.payload import Payload
from judges.process import Child
from judges.reports import Delivery, ReceiveReport, SendReport

SendMode = Literal["sync", "async", "oneway", "ordered", "batch", "transaction"]
ConsumerKind = Literal["push", "lite", "pull"]
Start = Literal["first", "last", "timestamp"]
TimerSetter = Literal["setDelayTimeSec", "setDelayTimeMs", "setDeliverTimeMs"]
Outcome = Literal["commit", "rollback", "unknown"]

SEND_TIMEOUT_MS = 10_000
PATIENCE_SECONDS = 60.0
MARGIN_SECONDS = 30.0
SETTLE_MS = 100

_EVERY = {"sync", "tags", "push", "broadcast", "retry", "delay", "dead_letter"}
_FULL = _EVERY | {
    "async", "oneway", "batch", "ordered_send", "ordered_receive", "transaction", "sql", "timestamp", "retry_limit",
    "lite",
}  # fmt: skip

CAPABILITIES: Mapping[str, frozenset[str]] = {
    "java-5.5.0": frozenset(_FULL | {"lite_sql", "pull", "timer"}),
    "java-4.9.8": frozenset(_FULL | {"lite_sql", "pull"}),
    "go": frozenset(_FULL),
    "node": frozenset(_EVERY | {"async", "ordered_send", "sql", "timestamp", "retry_limit"}),
    "cpp": frozenset(_EVERY | {"async", "oneway", "ordered_send", "ordered_receive", "lite"}),
    "rust": frozenset(_FULL | {"lite_sql", "timer"}) - {"broadcast"},
}
CLIENTS = tuple(client for client in CAPABILITIES if client not in BY_NAME_ONLY)
"""The clients that `python -m judges install` makes without being told their names."""

T = TypeVar("T")

_numbers = itertools.count(1)


def fresh(label: str) -> str:
    """Return an unused name for a topic or group."""
    return f"{label.replace('.', '_')}-{os.getpid()}-{next(_numbers)}"


def is_installed(client: str) -> bool:
    """Whether a client can be used without making it first, or is made in little time."""
    return client in CLIENTS or all_artifacts()[client].installed


def java_judge_program(version: str) -> JavaProgram:
    """The command of the Java judge; it rebalances every second instead of every twenty."""
    heap = ("-Xms64m", "-Xmx512m", "-Drocketmq.client.rebalance.waitInterval=1000")
    return JavaProgram(version, "judge", "judge.Judge", heap)


class ConsumerOptions(TypedDict, total=False):
    """The options of a consumer; the default is in parentheses."""

    group: str  # (a new one)
    expression: str  # tags as `A || B`, or SQL92 (*)
    sql: bool  # whether the expression is SQL92 (False)
    kind: ConsumerKind  # (push)
    ordered: bool  # (False)
    broadcast: bool  # (False)
    start: Start  # where a new group starts (first)
    timestamp: str  # yyyyMMddHHmmss, for a start by timestamp
    failures: int  # how many deliveries of each message to refuse (0)
    retry_level: int  # delay level of a refused message, where the client can say it (the broker's choice)
    max_reconsume: int | None  # (the client's own)
    with_properties: bool  # report all properties of each message (False)
    instance: str  # part of the client id (a new one)


class _Sent(msgspec.Struct):
    statuses: dict[str, int]
    queues: dict[str, int]
    failed: list[int]
    errors: list[str]
    elapsed_ms: int


class _Handle(msgspec.Struct):
    handle: int


class _Collected(msgspec.Struct):
    deliveries: list[Delivery]


class _Checks(msgspec.Struct):
    checks: int


class Timed(msgspec.Struct, frozen=True):
    """Messages that were sent for a time: the digests of their bodies, and the handles by which they are recalled."""

    digests: tuple[str, ...]
    handles: tuple[str, ...]


class Counted(msgspec.Struct, frozen=True):
    """The number of messages that a consumer has been given until now."""

    deliveries: int
    accepted: int


class _Timed(msgspec.Struct):
    handles: list[str]


class _Recalled(msgspec.Struct):
    id: str


class _Done(msgspec.Struct):
    pass


class JudgeProcess:
    """One stock client, started with the first request.

    Another client that speaks as the stock clients' programs do is given with its command. ``prefix`` are words before
    the command, which run it elsewhere, such as in a network namespace.
    """

    def __init__(
        self,
        client: str,
        command: Sequence[str] = (),
        *,
        prefix: Sequence[str] = (),
        keys: tuple[str, str] | None = None,
    ) -> None:
        if not command and client not in CAPABILITIES:
            raise ValueError(f"no stock client {client!r}; there are {', '.join(CAPABILITIES)}")
        self.client = client
        self._command = list(command)
        self._prefix = list(prefix)
        self._keys = keys
        self.home = Path(tempfile.mkdtemp(prefix=f"firearrow-{client}-"))
        self.log = self.home / "output.log"
        self._conversation: Conversation | None = None

    def at(self, name_server: str) -> "Judge":
        """This client, talking to one cluster; several addresses are separated by semicolons."""
        return Judge(self, name_server)

    def can(self, *capabilities: str) -> bool:
        """Whether the client has these abilities at all."""
        return CAPABILITIES.get(self.client, frozenset()).issuperset(capabilities)

    def conversation(self) -> Conversation:
        """The running process, started now if it is not there."""
        return self._conversation or self.start()

    def start(self, flags: tuple[str, ...] = ()) -> Conversation:
        """Start the process before the first request does."""
        environment = {"HOME": str(self.home)}
        if self._keys is not None:
            environment |= {"JUDGE_ACCESS_KEY": self._keys[0], "JUDGE_SECRET_KEY": self._keys[1]}
        child = Child([*self._prefix, *self._words(flags)], self.log, environment, piped_output=True)
        self._conversation = Conversation(child)
        return self._conversation

    def reset(self) -> None:
        """End every producer and consumer; the process stays."""
        if self._conversation is not None:
            self._conversation.ask({"verb": "reset"}, _Done, PATIENCE_SECONDS)

    def kill(self) -> None:
        """Kill the process: its producers and consumers tell nobody."""
        self.conversation().child.kill()

    def close(self) -> None:
        """End the process."""
        if self._conversation is not None:
            self._conversation.close()
            self._conversation.child.kill()
            self._conversation = None
        shutil.rmtree(self.home, ignore_errors=True)

    def _words(self, flags: tuple[str, ...]) -> list[str]:
        if self._command:
            return self._command
        match self.client.partition("-"):
            case ("java", _, version):
                return java_judge_program(version).command(self.home, flags=flags)
            case ("go", _, _):
                return [str(go_judge().install() / "judge")]
            case ("rust", _, _):
                return [str(rust_judge().install() / "judge")]
            case ("node", _, _):
                return [tool("node"), str(node_judge().install() / "judge.js")]
            case _:
                return [sys.executable, str(cpp_judge().install() / "judge.py")]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Judge:
    """A stock client at one cluster."""

    def __init__(self, process: JudgeProcess, name_server: str) -> None:
        self.process = process
        self.name_server = name_server

    @property
    def client(self) -> str:
        """The stock client of this judge."""
        return self.process.client

    def another(self) -> JudgeProcess:
        """The same client in another process, which may be killed."""
        return JudgeProcess(self.client)

    def send(
        self,
        topic: str,
        count: int = 1,
        *,
        mode: SendMode = "sync",
        size: int = 0,
        tags: Sequence[str] = (),
        keys: bool = False,
        shards: int = 1,
        batch: int = 32,
        delay_level: int = 0,
        properties: Mapping[str, str] | None = None,
        outcomes: Sequence[Outcome] = ("commit",),
        check: Outcome = "commit",
        group: str | None = None,
        prefix: str | None = None,
        first: int = 0,
        timeout_ms: int = SEND_TIMEOUT_MS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> SendReport:
        """Send `count` messages of at least `size` bytes; tags, shards and outcomes are given in turn."""
        payload = Payload(prefix or fresh(self.client), size)
        request = {
            "verb": "send", "name_server": self.name_server, "topic": topic, "count": count, "mode": mode,
            "size": size, "tags": list(tags), "keys": keys, "shards": shards, "batch": batch,
            "delay_level": delay_level, "properties": dict(properties or {}), "outcomes": list(outcomes),
            "check": check, "group": group or f"P-{topic}", "prefix": payload.prefix, "first": first,
            "timeout_ms": timeout_ms, "patience_ms": int(patience_seconds * 1000),
        }  # fmt: skip
        sent = self.ask(request, _Sent, patience_seconds + MARGIN_SECONDS)
        failed = set(sent.failed)
        return SendReport(
            payload=payload,
            indexes=tuple(index for index in range(first, first + count) if index not in failed),
            failed=tuple(sorted(failed)),
            statuses=sent.statuses,
            queues=sent.queues,
            errors=tuple(sent.errors),
            tags=tuple(tags),
            elapsed_ms=sent.elapsed_ms,
        )

    def send_timed(self, topic: str, count: int, setter: TimerSetter, value: int) -> "Timed":
        """Send messages for a time, which one of the setters of the client says; Java 5.x and Rust (no handles)."""
        payload = Payload(fresh(self.client), 0)
        request = {
            "verb": "timed", "name_server": self.name_server, "topic": topic, "count": count, "setter": setter,
            "value": str(value), "group": f"P-{topic}", "prefix": payload.prefix,
        }  # fmt: skip
        handles = self.ask(request, _Timed, PATIENCE_SECONDS).handles
        return Timed(tuple(payload.digest(index) for index in range(count)), tuple(handles))

    def recall(self, topic: str, handle: str) -> str:
        """Take a timed message back; return its unique key. Java 5.x."""
        request = {
            "verb": "recall", "name_server": self.name_server, "topic": topic, "group": f"P-{topic}", "handle": handle,
        }  # fmt: skip
        return self.ask(request, _Recalled, PATIENCE_SECONDS).id

    def subscribe(self, topic: str, **options: Unpack[ConsumerOptions]) -> "Subscription":
        """Start a consumer."""
        request = {
            "verb": "subscribe", "name_server": self.name_server, "topic": topic, "group": fresh("G"),
            "expression": "*", "sql": False, "kind": "push", "ordered": False, "broadcast": False, "start": "first",
            "timestamp": "", "failures": 0, "retry_level": 0, "max_reconsume": None, "with_properties": False,
            "instance": "", **options,
        }  # fmt: skip
        return Subscription(self, self.ask(request, _Handle, PATIENCE_SECONDS).handle)

    def receive(
        self,
        topic: str,
        count: int,
        *,
        timeout_seconds: float = PATIENCE_SECONDS,
        settle_ms: int = SETTLE_MS,
        **options: Unpack[ConsumerOptions],
    ) -> ReceiveReport:
        """Consume `count` messages with a consumer of its own."""
        with self.subscribe(topic, **options) as subscription:
            return subscription.collect(count, timeout_seconds=timeout_seconds, settle_ms=settle_ms)

    def checks(self, topic: str, group: str | None = None) -> int:
        """The number of times the broker asked this client's producer about undecided transactions."""
        request = {"verb": "checks", "name_server": self.name_server, "group": group or f"P-{topic}"}
        return self.ask(request, _Checks, PATIENCE_SECONDS).checks

    def ask(self, request: Mapping[str, Any], answer: type[T], timeout_seconds: float) -> T:
        """Say one request to the process."""
        return self.process.conversation().ask(request, answer, timeout_seconds)


class Subscription:
    """A running consumer."""

    def __init__(self, judge: Judge, handle: int) -> None:
        self.judge = judge
        self.handle = handle

    def collect(
        self,
        count: int,
        *,
        deliveries: bool = False,
        timeout_seconds: float = PATIENCE_SECONDS,
        settle_ms: int = SETTLE_MS,
    ) -> ReceiveReport:
        """Wait for `count` accepted messages in all (or deliveries), then `settle_ms` for what should not come."""
        request = {
            "verb": "collect", "handle": self.handle, "count": count, "deliveries": deliveries,
            "timeout_ms": int(timeout_seconds * 1000), "settle_ms": settle_ms,
        }  # fmt: skip
        collected = self.judge.ask(request, _Collected, timeout_seconds + MARGIN_SECONDS)
        return ReceiveReport(tuple(collected.deliveries))

    def count(self) -> Counted:
        """The number of messages delivered until now; Java, Go and Rust."""
        return self.judge.ask({"verb": "count", "handle": self.handle}, Counted, PATIENCE_SECONDS)

    def so_far(self) -> ReceiveReport:
        """The messages delivered until now."""
        return self.collect(0, settle_ms=0)

    def close(self) -> None:
        """End the consumer."""
        request = {"verb": "close", "handle": self.handle}
        self.judge.ask(request, _Done, PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
