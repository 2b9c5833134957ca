"""``python -m campaigns.failover.our_producer``: our producer, asked as the programs of the stock clients are.

Verbs: produce, progress, halt (see `judges.producers`). It uses the blocking client, one message at a time.
"""

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firearrow.blocking import Message, Producer
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import FireArrowError
from judges.conversation import ANSWER
from judges.payload import Payload

ATTEMPT_MS: Final = 1_000
"""The time that one attempt waits for a broker that may be frozen."""
AFTER_A_FAILURE_S: Final = 0.02
ERRORS_KEPT: Final = 5

Request = Mapping[str, Any]


class Running(threading.Thread):
    """One producer: where each acknowledged message is, and which were not acknowledged."""

    def __init__(self, request: Request) -> None:
        super().__init__(daemon=True)
        self._request = request
        self._payload = Payload(request["prefix"], request["size"])
        self._is_halted = threading.Event()
        self._acks: list[tuple[int, str, int, int]] = []
        self._failed: list[int] = []
        self._errors: list[str] = []

    def run(self) -> None:
        """Send until halted."""
        asked = self._request
        options = ProducerOptions(send_timeout_ms=asked["timeout_ms"], attempt_timeout_ms=ATTEMPT_MS)
        with Producer(asked["name_server"], group=asked["group"], **options) as producer:
            number = 0
            while not self._is_halted.is_set():
                is_taken = self._attempt(producer, number)
                time.sleep(asked["pause_ms"] / 1000 if is_taken else AFTER_A_FAILURE_S)
                number += 1

    def _attempt(self, producer: Producer, number: int) -> bool:
        try:
            sent = producer.send(Message.of(self._request["topic"], self._payload.body(number)))
        except FireArrowError as error:
            return self._fail(number, str(error))
        if not sent.is_ok:
            return self._fail(number, sent.status.value)
        self._acks.append((number, sent.queue.broker_name, sent.queue.queue_id, sent.queue_offset))
        return True

    def _fail(self, number: int, reason: str) -> bool:
        self._failed.append(number)
        if len(self._errors) < ERRORS_KEPT:
            self._errors.append(reason)
        return False

    def progress(self) -> dict[str, Any]:
        """The progress of the producer."""
        return {"acknowledged": len(self._acks), "failed": len(self._failed)}

    def halt(self) -> dict[str, Any]:
        """End it, and tell everything."""
        self._is_halted.set()
        self.join()
        return {"acks": self._acks, "failed": self._failed, "errors": self._errors}


def main() -> None:
    """Answer requests from standard input until it ends."""
    running: list[Running] = []
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line)
        match request["verb"]:
            case "produce":
                running.append(Running(request))
                running[-1].start()
                answer: dict[str, Any] = {"handle": len(running)}
            case "progress":
                answer = running[request["handle"] - 1].progress()
            case "halt":
                answer = running[request["handle"] - 1].halt()
            case verb:
                answer = {"unsupported": f"our producer does not {verb}"}
        sys.stdout.buffer.write(ANSWER + msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
