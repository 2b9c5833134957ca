"""Drives the stock C++ client, `librocketmq.so` out of the `rocketmq` wheel, through its C interface.

One request a line on standard input, one answer a line on standard output, both JSON objects. The end of the
input ends the process. The library takes and gives bodies as C strings, hence no zero byte in any body of the
judges. Runs by itself, with the wheel on `sys.path` and without the package that ships it.
"""

import ctypes
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rocketmq.ffi import (  # type: ignore[import-not-found,unused-ignore]
    MSG_CALLBACK_FUNC,
    QUEUE_SELECTOR_CALLBACK,
    SEND_EXCEPTION_CALLBACK,
    SEND_SUCCESS_CALLBACK,
    _CMessageQueue,
    _CSendResult,
    dll,
)

ANSWER = "@answer "
ERRORS_KEPT = 5
LOG_ERRORS_ONLY = 2
STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
CONSUMED, LATER = 0, 1
FOUND = 0
MESSAGES_A_PULL = 32
BROADCASTING = 0
LARGEST_BODY = 4 << 20
COLLECT_POLL_SECONDS = 0.005

Request = dict[str, Any]
Answer = dict[str, Any]

for setter in (dll.SetProducerLogLevel, dll.SetPushConsumerLogLevel, dll.SetPullConsumerLogLevel):
    setter.argtypes = [ctypes.c_void_p, ctypes.c_int]
dll.SetProducerInstanceName.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


class UnsupportedVerb(Exception):
    """This client cannot do what was asked."""


def check(status: int) -> None:
    """Raise what the library says of its last failure."""
    if status != 0:
        said = dll.GetLatestErrorMessage() or b"no message"
        raise RuntimeError(f"status {int(status)}: {said.decode(errors='replace')}")


def body(prefix: str, index: int, size: int) -> bytes:
    """`PREFIX-index|`, then filler byte j = 1 + (index + j) % 255 up to the size."""
    head = f"{prefix}-{index}|".encode()
    return head + bytes(1 + (index + j) % 255 for j in range(size - len(head)))


@QUEUE_SELECTOR_CALLBACK  # type: ignore[untyped-decorator,unused-ignore]
def queue_of_shard(queues: int, _message: int, shard: int) -> int:
    """Pick the queue numbered like the shard."""
    return int(ctypes.cast(shard, ctypes.POINTER(ctypes.c_int))[0]) % queues


class Tally:
    """The outcomes of the messages of one request."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.lock = threading.Lock()
        self.statuses: dict[str, int] = {}
        self.failed: list[int] = []
        self.errors: list[str] = []
        self.told = 0

    def sent(self, status: int) -> None:
        """Count one answer of the broker."""
        with self.lock:
            self.told += 1
            self.statuses[STATUSES[status]] = self.statuses.get(STATUSES[status], 0) + 1

    def refused(self, index: int, why: str) -> None:
        """Note one message that was not taken."""
        with self.lock:
            self.told += 1
            self.failed.append(index)
            if len(self.errors) < ERRORS_KEPT:
                self.errors.append(why)

    def answer(self) -> Answer:
        """The library does not say which queue took a message."""
        with self.lock:
            return {
                "statuses": self.statuses,
                "queues": {},
                "failed": self.failed,
                "errors": self.errors,
                "elapsed_ms": int((time.monotonic() - self.start) * 1000),
            }


class Senders:
    """Producers, one per name server and group, kept between requests; and the ways to send."""

    def __init__(self) -> None:
        self.producers: dict[tuple[str, str], int] = {}
        self.started = 0
        self.callbacks: list[object] = []

    def send(self, request: Request) -> Answer:
        """Send all messages of one request in its mode."""
        ways: dict[str, Callable[[int, int, int, Request, Tally], None]] = {
            "sync": self._sync,
            "ordered": self._ordered,
            "oneway": self._oneway,
            "async": self._async,
        }
        way = ways.get(request["mode"])
        if way is None:
            raise UnsupportedVerb(f"the C++ client does not send in mode {request['mode']}")
        producer = self._producer(request)
        check(dll.SetProducerSendMsgTimeout(producer, request["timeout_ms"]))
        tally = Tally()
        for index, message in self._messages(request):
            try:
                way(producer, message, index, request, tally)
            except RuntimeError as refused:
                tally.refused(index, str(refused))
            if request["mode"] != "async":
                dll.DestroyMessage(message)
        if request["mode"] == "async":
            self._await_callbacks(request, tally)
        return tally.answer()

    def reset(self) -> None:
        """Shut every producer down."""
        for producer in self.producers.values():
            dll.ShutdownProducer(producer)
            dll.DestroyProducer(producer)
        self.producers.clear()
        self.callbacks.clear()

    def _sync(self, producer: int, message: int, _index: int, _request: Request, tally: Tally) -> None:
        result = _CSendResult()
        check(dll.SendMessageSync(producer, message, ctypes.pointer(result)))
        tally.sent(result.sendStatus)

    def _oneway(self, producer: int, message: int, _index: int, _request: Request, _tally: Tally) -> None:
        check(dll.SendMessageOneway(producer, message))

    def _ordered(self, producer: int, message: int, index: int, request: Request, tally: Tally) -> None:
        result = _CSendResult()
        shard = ctypes.c_int(index % request["shards"])
        argument = ctypes.cast(ctypes.pointer(shard), ctypes.c_void_p)
        check(dll.SendMessageOrderly(producer, message, queue_of_shard, argument, 3, ctypes.pointer(result)))
        tally.sent(result.sendStatus)

    def _async(self, producer: int, message: int, index: int, _request: Request, tally: Tally) -> None:
        def taken(_result: object) -> None:
            tally.sent(0)

        def lost(failure: ctypes.Structure) -> None:
            tally.refused(index, bytes(failure.msg).decode(errors="replace"))

        pair = (SEND_SUCCESS_CALLBACK(taken), SEND_EXCEPTION_CALLBACK(lost))
        self.callbacks.append(pair)  # the library calls them from a thread of its own, later
        check(dll.SendMessageAsync(producer, message, *pair))

    @staticmethod
    def _await_callbacks(request: Request, tally: Tally) -> None:
        deadline = time.monotonic() + request["patience_ms"] / 1000
        while tally.told < request["count"] and time.monotonic() < deadline:
            time.sleep(COLLECT_POLL_SECONDS)
        if tally.told < request["count"]:
            tally.refused(-1, f"{request['count'] - tally.told} callbacks did not come")

    @staticmethod
    def _messages(request: Request) -> Iterator[tuple[int, int]]:
        for index in range(request["first"], request["first"] + request["count"]):
            message: int = dll.CreateMessage(request["topic"].encode())
            content = body(request["prefix"], index, request["size"])
            check(dll.SetByteMessageBody(message, content, len(content)))
            if request["tags"]:
                check(dll.SetMessageTags(message, request["tags"][index % len(request["tags"])].encode()))
            if request["keys"]:
                check(dll.SetMessageKeys(message, f"{request['prefix']}-{index}".encode()))
            if request["delay_level"]:
                check(dll.SetDelayTimeLevel(message, request["delay_level"]))
            for name, value in request["properties"].items():
                check(dll.SetMessageProperty(message, name.encode(), value.encode()))
            yield index, message

    def _producer(self, request: Request) -> int:
        key = (request["name_server"], request["group"])
        if key not in self.producers:
            self.started += 1
            producer: int = dll.CreateProducer(request["group"].encode())
            check(dll.SetProducerNameServerAddress(producer, request["name_server"].encode()))
            check(dll.SetProducerInstanceName(producer, f"sender-{self.started}-{os.getpid()}".encode()))
            dll.SetProducerLogLevel(producer, LOG_ERRORS_ONLY)
            check(dll.SetProducerMaxMessageSize(producer, LARGEST_BODY))
            check(dll.StartProducer(producer))
            self.producers[key] = producer
        return self.producers[key]


class Deliveries:
    """Every message that a consumer was given, in the order of arrival, and which of them it refused."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self._lock = threading.Lock()
        self._seen: list[Answer] = []
        self._successes = 0

    def note(self, message: int) -> bool:
        """Note one message; False when it is to come again."""
        content: bytes = dll.GetMessageBody(message) or b""
        times: int = dll.GetMessageReconsumeTimes(message)
        failed = times < self._failures
        delivery = {
            "digest": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "broker": "",
            "queue": dll.GetMessageQueueId(message),
            "offset": dll.GetMessageQueueOffset(message),
            "tag": (dll.GetMessageTags(message) or b"").decode(),
            "keys": (dll.GetMessageKeys(message) or b"").decode(),
            "times": times,
            "born_ms": dll.GetMessageBornTimestamp(message),
            "stored_ms": dll.GetMessageStoreTimestamp(message),
            "seen_ms": int(time.time() * 1000),
            "failed": failed,
        }
        with self._lock:
            self._successes += not failed
            self._seen.append(delivery)
        return not failed

    def collect(self, request: Request) -> Answer:
        """Wait for the number asked for, then a little longer for what should not come."""
        deadline = time.monotonic() + request["timeout_ms"] / 1000
        while time.monotonic() < deadline:
            if (len(self._seen) if request["deliveries"] else self._successes) >= request["count"]:
                break
            time.sleep(COLLECT_POLL_SECONDS)
        time.sleep(request["settle_ms"] / 1000)
        with self._lock:
            return {"deliveries": list(self._seen)}


class Receiver:
    """A consumer that is called with each message."""

    def __init__(self, request: Request, handle: int) -> None:
        self.deliveries = Deliveries(request["failures"])
        self.callback = MSG_CALLBACK_FUNC(self._listen)
        self.consumer: int = dll.CreatePushConsumer(request["group"].encode())
        instance = request["instance"] or f"receiver-{handle}-{os.getpid()}"
        check(dll.SetPushConsumerNameServerAddress(self.consumer, request["name_server"].encode()))
        check(dll.SetPushConsumerInstanceName(self.consumer, instance.encode()))
        dll.SetPushConsumerLogLevel(self.consumer, LOG_ERRORS_ONLY)
        if request["broadcast"]:
            check(dll.SetPushConsumerMessageModel(self.consumer, BROADCASTING))
        check(dll.Subscribe(self.consumer, request["topic"].encode(), request["expression"].encode()))
        register = dll.RegisterMessageCallbackOrderly if request["ordered"] else dll.RegisterMessageCallback
        check(register(self.consumer, self.callback))
        check(dll.StartPushConsumer(self.consumer))

    def _listen(self, _consumer: int, message: int) -> int:
        return CONSUMED if self.deliveries.note(message) else LATER

    def close(self) -> None:
        """Shut the consumer down."""
        dll.ShutdownPushConsumer(self.consumer)
        dll.DestroyPushConsumer(self.consumer)


class Poller:
    """A consumer that asks every queue of the topic from its beginning on; this client keeps no offsets for it."""

    def __init__(self, request: Request, _handle: int) -> None:
        self.deliveries = Deliveries(0)
        self.consumer: int = dll.CreatePullConsumer(request["group"].encode())
        check(dll.SetPullConsumerNameServerAddress(self.consumer, request["name_server"].encode()))
        dll.SetPullConsumerLogLevel(self.consumer, LOG_ERRORS_ONLY)
        check(dll.StartPullConsumer(self.consumer))
        self._expression: bytes = request["expression"].encode()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(request["topic"].encode(),))
        self._thread.start()

    def _poll(self, topic: bytes) -> None:
        queues, count = ctypes.POINTER(_CMessageQueue)(), ctypes.c_int()
        check(dll.FetchSubscriptionMessageQueues(self.consumer, topic, ctypes.pointer(queues), ctypes.pointer(count)))
        offsets = [0] * count.value
        while not self._ended.wait(COLLECT_POLL_SECONDS):
            for number, offset in enumerate(offsets):
                offsets[number] = self._pull(ctypes.pointer(queues[number]), offset)
        dll.ReleaseSubscriptionMessageQueue(queues)

    def _pull(self, queue: object, offset: int) -> int:
        result = dll.Pull(self.consumer, queue, self._expression, ctypes.c_longlong(offset), MESSAGES_A_PULL)
        if result.pullStatus == FOUND:
            for number in range(result.size):
                self.deliveries.note(result.msgFoundList[number])
        after = int(result.nextBeginOffset) if result.pullStatus == FOUND else offset
        dll.ReleasePullResult(result)
        return after

    def close(self) -> None:
        """Shut the consumer down."""
        self._ended.set()
        self._thread.join()
        dll.ShutdownPullConsumer(self.consumer)
        dll.DestroyPullConsumer(self.consumer)


class Receivers:
    """Running consumers by handle."""

    def __init__(self) -> None:
        self.running: dict[int, Receiver | Poller] = {}
        self.handles = 0

    def subscribe(self, request: Request) -> Answer:
        """Start a consumer and answer with its handle."""
        wants = {"sql": False, "start": "first", "max_reconsume": None, "with_properties": False}
        for name, only in wants.items():
            if request[name] != only:
                raise UnsupportedVerb(f"the C++ client cannot consume with {name} = {request[name]!r}")
        self.handles += 1
        kind = Poller if request["kind"] == "lite" else Receiver
        self.running[self.handles] = kind(request, self.handles)
        return {"handle": self.handles}

    def collect(self, request: Request) -> Answer:
        """Answer with the deliveries so far."""
        return self.running[request["handle"]].deliveries.collect(request)

    def close(self, request: Request) -> Answer:
        """End one consumer."""
        self.running.pop(request["handle"]).close()
        return {}

    def reset(self) -> None:
        """End every consumer."""
        for receiver in self.running.values():
            receiver.close()
        self.running.clear()


def serve() -> None:
    """Answer line after line until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints is not an answer
    senders, receivers = Senders(), Receivers()

    def reset(_request: Request) -> Answer:
        receivers.reset()
        senders.reset()
        return {}

    verbs: dict[str, Callable[[Request], Answer]] = {
        "send": senders.send,
        "subscribe": receivers.subscribe,
        "collect": receivers.collect,
        "close": receivers.close,
        "reset": reset,
    }
    for line in sys.stdin:
        answers.write(f"{ANSWER}{json.dumps(attempt(verbs, line))}\n")
        answers.flush()


def attempt(verbs: dict[str, Callable[[Request], Answer]], line: str) -> Answer:
    """Answer one line; a failure is an answer too."""
    try:
        request = json.loads(line)
        if request["verb"] not in verbs:
            return {"unsupported": f"the C++ client has no verb {request['verb']}"}
        return verbs[request["verb"]](request)
    except UnsupportedVerb as lacking:
        return {"unsupported": str(lacking)}
    except Exception as broken:  # noqa: BLE001  whatever went wrong is the answer
        return {"error": repr(broken)}


if __name__ == "__main__":
    serve()
    os._exit(0)  # the library's threads do not end by themselves
