"""A worker without asyncio: four threads handle messages; SIGTERM lets them finish and leaves the group in order."""

import os
import signal
import threading

from firearrow.blocking import Consumer, Message, Producer, ReceivedMessage

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")
handled: list[bytes] = []
lock = threading.Lock()


def handle(message: ReceivedMessage) -> None:
    """Work in one of the threads."""
    with lock:
        handled.append(message.body)
        if len(handled) == 10:
            os.kill(os.getpid(), signal.SIGTERM)  # what a supervisor would send


with Producer(ADDRESS, group="example") as producer:
    producer.send_batch(Message.of("work", b"%d" % number) for number in range(10))

with Consumer(ADDRESS, group="example-worker", topics="work", start="first", workers=4) as consumer:
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    consumer.run(handle)
print("handled", len(handled), "and left in order")
