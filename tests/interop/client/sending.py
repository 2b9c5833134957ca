"""Our producer where `judges.producers` has a stock one: sends by itself, one message at a time, until it is halted."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from firearrow.blocking import Message, Producer
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import FireArrowError
from judges import Payload

AFTER_A_FAILURE_S = 0.02
ERRORS_KEPT = 5


class Sending:
    """A producer in a thread of its own: where each message is that was acknowledged, and which were not."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._payload = Payload(request["prefix"], request["size"])
        options = ProducerOptions(
            send_timeout_ms=request["timeout_ms"], retries=request["retries"], poll_name_server_ms=request["route_ms"]
        )
        self._producer = Producer(request["name_server"], group=request["group"], **options)
        self._producer.open()
        self._acks: list[tuple[int, str, int, int]] = []
        self._failed: list[int] = []
        self._errors: list[str] = []
        self._is_halted = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_halted:
            pause_s = self._request["pause_ms"] / 1000 if self._send(number) else AFTER_A_FAILURE_S
            number += 1
            time.sleep(pause_s)

    def _send(self, number: int) -> bool:
        shards = self._request["shards"]
        key = f"shard-{number % shards}" if shards else ""
        message = Message.of(self._request["topic"], self._payload.body(number), sharding_key=key)
        try:
            sent = self._producer.send(message)
        except FireArrowError as error:
            self._failed.append(number)
            self._errors.append(str(error))
            return False
        if sent.status.value != "SEND_OK":
            self._failed.append(number)
            self._errors.append(sent.status.value)
            return False
        self._acks.append((number, sent.queue.broker_name, sent.queue.queue_id, sent.queue_offset))
        return True

    def progress(self) -> dict[str, int]:
        """The progress of the sender."""
        return {"acknowledged": len(self._acks), "failed": len(self._failed)}

    def halt(self) -> dict[str, Any]:
        """End it, and return everything that it did."""
        self._is_halted = True
        self._thread.join()
        self._producer.close()
        return {"acks": self._acks, "failed": self._failed, "errors": self._errors[:ERRORS_KEPT]}
