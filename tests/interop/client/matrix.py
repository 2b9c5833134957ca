"""Our client where a stock client would be: the same verbs, so that the stock clients' own scripts run with it.

`OurJudge` answers in this process what a stock client's process answers; everything above that is the judges' own code.
It uses the blocking client.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from firearrow.blocking import Consumer, Message, Producer, PullConsumer, ReceivedMessage, sql
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import FireArrowError
from judges import Delivery, Judge, Payload
from judges.judge import CAPABILITIES
from judges.server_process import wait_for
from tests.interop.client.ours import delivery

T = TypeVar("T")

ABILITIES = CAPABILITIES["java-5.5.0"] - {"transaction", "pull"}
Request = Mapping[str, Any]


class OurJudge(Judge):
    """Our client at one cluster."""

    def __init__(self, name_server: str) -> None:
        process = SimpleNamespace(client="firearrow", can=lambda *needs: ABILITIES.issuperset(needs))
        super().__init__(process, name_server)  # type: ignore[arg-type]
        self._running: dict[int, Running] = {}
        self._verbs = {"send": self._send, "subscribe": self._subscribe, "collect": self._collect, "close": self._close}

    def ask(self, request: Request, answer: type[T], timeout_seconds: float) -> T:  # noqa: ARG002 - each verb has its own
        """Do here what a stock client's process would be asked to do."""
        return msgspec.convert(self._verbs[request["verb"]](request), answer)

    def reset(self) -> None:
        """End every consumer."""
        for number in list(self._running):
            self._close({"handle": number})

    def _send(self, request: Request) -> dict[str, Any]:
        begun, told = time.monotonic(), Sent(request)
        options = ProducerOptions(send_timeout_ms=request["timeout_ms"])
        with Producer(self.name_server, group=request["group"], **options) as producer:
            told.send_with(producer)
        return told.report(int((time.monotonic() - begun) * 1000))

    def _subscribe(self, request: Request) -> dict[str, int]:
        number = len(self._running) + 1
        while number in self._running:
            number += 1
        self._running[number] = Running(self.name_server, request)
        return {"handle": number}

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
