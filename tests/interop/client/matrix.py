"""Our client where a stock client would be: the same verbs, so that the stock clients' own scripts run with it.

`OurJudge` answers in this process what a stock client's process answers; everything above that is the judges' own code.
It uses the blocking client. `main` does the same as a process of its own, for a script that kills its client.
"""

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from firearrow.blocking import (
    Consumer,
    Message,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SendResult,
    TransactionalProducer,
    TransactionState,
    sql,
)
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import FireArrowError
from judges import Delivery, Judge, JudgeProcess, Payload
from judges.conversation import ANSWER
from judges.judge import CAPABILITIES
from judges.server_process import wait_for
from tests.interop.client.ours import delivery
from tests.interop.client.sending import Sending

T = TypeVar("T")

ABILITIES = CAPABILITIES["java-5.5.0"] - {"pull"}
STATES = {
    "commit": TransactionState.COMMIT,
    "rollback": TransactionState.ROLLBACK,
    "unknown": TransactionState.UNKNOWN,
}
Request = Mapping[str, Any]
_PROCESS = f"import sys; sys.path[:0] = [{str(Path(__file__).parents[3])!r}]; from {__name__} import main; main()"


class OurJudge(Judge):
    """Our client at one cluster."""

    def __init__(self, name_server: str) -> None:
        process = SimpleNamespace(client="firearrow", can=lambda *needs: ABILITIES.issuperset(needs))
        super().__init__(process, name_server)  # type: ignore[arg-type]
        self._running: dict[int, Running] = {}
        self._sending: dict[int, Sending] = {}
        self._handles = itertools.count(1)
        self._undecided: dict[str, Undecided] = {}
        self._verbs: dict[str, Callable[[Request], dict[str, Any]]] = {
            "send": self._send,
            "timed": self._send_timed,
            "checks": self._checks,
            "subscribe": self._subscribe,
            "collect": self._collect,
            "count": self._count,
            "close": self._close,
            "produce": self._produce,
            "progress": lambda request: self._sending[request["handle"]].progress(),
            "halt": lambda request: self._sending.pop(request["handle"]).halt(),
            "reset": self._reset,
        }

    def ask(self, request: Request, answer: type[T], timeout_seconds: float) -> T:  # noqa: ARG002 - each verb has its own
        """Do here what a stock client's process would be asked to do."""
        return msgspec.convert(self.answer(request), answer)

    def answer(self, request: Request) -> dict[str, Any]:
        """Do what a request asks for, and return what a stock client's process would print."""
        return self._verbs[request["verb"]](request)

    def another(self) -> JudgeProcess:
        """Our client in a process of its own."""
        return our_process()

    def reset(self) -> None:
        """End every consumer and every producer."""
        for number in list(self._running):
            self._close({"handle": number})
        for sending in self._sending.values():
            sending.halt()
        self._sending.clear()
        for undecided in self._undecided.values():
            undecided.producer.close()
        self._undecided.clear()

    def _send(self, request: Request) -> dict[str, Any]:
        begun, told = time.monotonic(), Sent(request)
        if request["mode"] == "transaction":
            undecided = self._undecided.get(request["group"]) or Undecided(request)
            self._undecided[request["group"]] = undecided
            undecided.state = STATES[request["check"]]
            told.send_in_transactions(undecided.producer)
        else:
            options = ProducerOptions(send_timeout_ms=request["timeout_ms"])
            with Producer(request["name_server"], group=request["group"], **options) as producer:
                told.send_with(producer)
        return told.report(int((time.monotonic() - begun) * 1000))

    def _send_timed(self, request: Request) -> dict[str, Any]:
        payload, value = Payload(request["prefix"], 0), int(request["value"])
        unit_ms = 1000 if request["setter"] == "setDelayTimeSec" else 1
        timer: dict[str, Any] = {"delay": timedelta(milliseconds=value * unit_ms)}
        if request["setter"] == "setDeliverTimeMs":
            timer = {"deliver_at": value}
        with Producer(request["name_server"], group=request["group"]) as producer:
            numbers = range(request["count"])
            sent = [producer.send(Message.of(request["topic"], payload.body(each), **timer)) for each in numbers]
        return {"handles": [each.recall_handle or "" for each in sent]}

    def _checks(self, request: Request) -> dict[str, int]:
        return {"checks": self._undecided[request["group"]].checks}

    def _subscribe(self, request: Request) -> dict[str, int]:
        number = next(self._handles)
        self._running[number] = Running(request["name_server"], request)
        return {"handle": number}

    def _produce(self, request: Request) -> dict[str, int]:
        number = next(self._handles)
        self._sending[number] = Sending(request)
        return {"handle": number}

    def _count(self, request: Request) -> dict[str, int]:
        running = self._running[request["handle"]]
        count = len(running.deliveries)
        return {"deliveries": count, "accepted": count - running.refused}

    def _reset(self, _request: Request) -> dict[str, Any]:
        self.reset()
        return {}

    def _collect(self, request: Request) -> dict[str, Any]:
        running, count = self._running[request["handle"]], int(request["count"])
        whole = bool(request["deliveries"])

        def enough() -> bool:
            return len(running.deliveries) - (0 if whole else running.refused) >= count

        wait_for(enough, f"{count} messages; {len(running.deliveries)} deliveries", request["timeout_ms"] / 1000)
        time.sleep(request["settle_ms"] / 1000)  # for what should not come
        return {"deliveries": msgspec.to_builtins(list(running.deliveries))}

    def _close(self, request: Request) -> dict[str, Any]:
        self._running.pop(request["handle"]).close()
        return {}


class Undecided:
    """A producer that stays for the broker's questions, answers each with ``state`` and counts them."""

    def __init__(self, request: Request) -> None:
        self.state = TransactionState.UNKNOWN
        self.checks = 0
        options = ProducerOptions(send_timeout_ms=request["timeout_ms"])
        self.producer = TransactionalProducer(
            request["name_server"], group=request["group"], check=self._check, **options
        )
        self.producer.open()

    def _check(self, _message: object) -> TransactionState:
        self.checks += 1
        return self.state


class Sent:
    """One request to send, and what became of it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._payload = Payload(request["prefix"], request["size"])
        self._numbers = range(request["first"], request["first"] + request["count"])
        self._statuses: Counter[str] = Counter()
        self._queues: Counter[str] = Counter()
        self._failed: list[int] = []
        self._errors: list[str] = []

    def _message(self, number: int) -> Message:
        asked, tags = self._request, self._request["tags"]
        return Message.of(
            asked["topic"],
            self._payload.body(number),
            tag=tags[number % len(tags)] if tags else "",
            keys=[self._payload.key(number)] if asked["keys"] else (),
            delay_level=asked["delay_level"],
            sharding_key=f"shard-{number % asked['shards']}" if asked["mode"] == "ordered" else "",
            properties=asked["properties"],
        )

    def send_with(self, producer: Producer) -> None:
        mode, size = self._request["mode"], self._request["batch"] if self._request["mode"] == "batch" else 1
        parts = [self._numbers[start : start + size] for start in range(0, len(self._numbers), size)]
        if mode == "async":
            threads = [threading.Thread(target=self._send_some, args=(producer, part)) for part in parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return
        for part in parts:
            self._send_some(producer, part)

    def _send_some(self, producer: Producer, numbers: range) -> None:
        try:
            if self._request["mode"] == "oneway":
                producer.send_oneway(self._message(numbers[0]))
                return
            results = producer.send_batch([self._message(number) for number in numbers])
        except FireArrowError as error:
            self._failed += numbers
            self._errors.append(str(error))
        else:
            self._note(*results)

    def send_in_transactions(self, producer: TransactionalProducer[bytes]) -> None:
        outcomes = self._request["outcomes"]
        for number in self._numbers:
            state = STATES[outcomes[number % len(outcomes)]]
            try:
                sent = producer.send_in_transaction(self._message(number), lambda _, state=state: state)
            except FireArrowError as error:
                self._failed.append(number)
                self._errors.append(str(error))
            else:
                self._note(sent.half)

    def _note(self, *results: SendResult) -> None:
        self._statuses.update(result.status.value for result in results)
        self._queues.update(f"{result.queue.broker_name}:{result.queue.queue_id}" for result in results)

    def report(self, elapsed_ms: int) -> dict[str, Any]:
        return {
            "statuses": dict(self._statuses),
            "queues": dict(self._queues),
            "failed": self._failed,
            "errors": self._errors,
            "elapsed_ms": elapsed_ms,
        }


class Running:
    """A consumer in a thread of its own."""

    def __init__(self, names: str, request: Request) -> None:
        self._request = request
        self.deliveries: list[Delivery] = []
        self.refused = 0
        self._ends = False
        is_lite = request["kind"] == "lite"
        kind = PullConsumer if is_lite else Consumer
        topic = request["topic"]
        wanted = sql(request["expression"]) if request["sql"] else request["expression"]
        self._consumer = kind(names, group=request["group"], topics={topic: wanted}, **self._options())
        self._consumer.open()
        self._thread = threading.Thread(target=self._poll if is_lite else self._run)
        self._thread.start()

    def _options(self) -> ConsumerOptions:
        asked = self._request
        options = ConsumerOptions(start=asked["start"], ordered=asked["ordered"], broadcasting=asked["broadcast"])
        options["rebalance_ms"] = 1000
        if asked["start"] == "timestamp" and asked["timestamp"]:
            options["start"] = int(datetime.strptime(asked["timestamp"], "%Y%m%d%H%M%S").timestamp() * 1000)  # noqa: DTZ007
        if asked["max_reconsume"] is not None:
            options["max_reconsume_times"] = asked["max_reconsume"]
        if asked["broadcast"]:
            options["instance_name"] = asked["instance"] or f"judge-{id(self)}"
        return options

    def _run(self) -> None:
        assert isinstance(self._consumer, Consumer)
        self._consumer.run(self._handle)

    def _poll(self) -> None:
        assert isinstance(self._consumer, PullConsumer)
        while not self._ends:
            for message in self._consumer.poll(timeout_ms=200):
                self._handle(message)

    def _handle(self, message: ReceivedMessage) -> None:
        fails = message.reconsume_times < self._request["failures"]
        self.refused += fails
        self.deliveries.append(delivery(message, failed=fails))
        if fails:
            message.retry(self._request["retry_level"])

    def close(self) -> None:
        self._ends = True
        if isinstance(self._consumer, Consumer):
            self._consumer.stop()
        self._thread.join()
        self._consumer.close()


def our_process() -> JudgeProcess:
    """Our client in a process of its own."""
    return JudgeProcess("firearrow", [sys.executable, "-c", _PROCESS])


def main() -> None:
    """Answer requests from standard input as the programs of the stock clients do, until it ends."""
    judge = OurJudge("")
    for line in sys.stdin.buffer:
        given = msgspec.json.encode(judge.answer(msgspec.json.decode(line)))
        sys.stdout.buffer.write(ANSWER + given + b"\n")
        sys.stdout.buffer.flush()
