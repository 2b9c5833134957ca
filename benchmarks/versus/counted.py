"""A fixed number of sends, and the CPU that our broker takes for them: `python -m benchmarks.versus.counted`.

    python -m benchmarks.versus.counted                       batches of 32 x 128 B, 4 under way
    python -m benchmarks.versus.counted --batch 1 --body 1024 --in-flight 64 --sends 100000

Requests are encoded beforehand and sent over one connection by a page of Python. CPU for a fixed amount of work differs
less between runs on a busy machine than a rate does, so two versions of the broker can be compared there, in turns.
"""

import argparse
import socket
import struct
from datetime import UTC

from msgspec.structs import replace

from benchmarks.overload.frames import OPAQUE_AT, Answers, frame
from benchmarks.versus.contestants import ASYNC, OURS, QUEUES, TOPIC, Contestant, Standing
from firearrow.model import EpochMs, Message
from firearrow.protocol.requests.send import SendBatchMessage
from firearrow.record.batch import encode_batch
from firearrow.record.message_id import UniqueKeys
from firearrow.testing.samples import SEND

FRAMES = 320
READ_AT_ONCE = 1 << 20
BORN = EpochMs(1_790_000_000_000)


def frames(batch: int, body_bytes: int) -> list[bytearray]:
    """Different requests to take turns with; they lack their opaques."""
    keys = UniqueKeys("fd00::2", 1, 1, UTC)
    made = []
    for number in range(FRAMES):
        body = bytes([ord("a") + number % 26]) * body_bytes
        sent = [Message(TOPIC, body, {"UNIQ_KEY": keys.next(BORN), "WAIT": "true"}) for _ in range(batch)]
        request = replace(
            SEND, topic=TOPIC, queue_id=number % QUEUES, properties=f"UNIQ_KEY\x01{keys.next(BORN)}\x02WAIT\x01true\x02"
        )
        if batch > 1:
            fields = {name: getattr(request, name) for name in SendBatchMessage.__struct_fields__}
            asked, body = SendBatchMessage(**fields | {"batch": True}), encode_batch(sent)
            made.append(bytearray(frame(asked, 0, body)))
        else:
            made.append(bytearray(frame(request, 0, body)))
    return made


def send_all(broker: str, requests: list[bytearray], sends: int, in_flight: int) -> int:
    """Send so many, never more than a few under way; return how many were refused."""
    host, _, port = broker.rpartition(":")
    answers, sent, answered, refused = Answers(), 0, 0, 0
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while answered < sends:
            fresh = []
            while sent < sends and sent - answered < in_flight:
                request = requests[sent % len(requests)]
                struct.pack_into(">i", request, OPAQUE_AT, sent)
                fresh.append(bytes(request))
                sent += 1
            connection.sendall(b"".join(fresh))
            for code, _ in answers.feed(connection.recv(READ_AT_ONCE)):
                answered += 1
                refused += code != 0
    return refused


def measure(standing: Standing, options: argparse.Namespace) -> None:
    """One round."""
    before = standing.cpu_s()
    refused = send_all(standing.broker, options.frames, options.sends, options.in_flight)
    cpu_us = (standing.cpu_s() - before) / (options.sends * options.batch) * 1e6
    print(f"{cpu_us:.2f} us of CPU a message, {refused} sends refused", flush=True)


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32, help="messages in a send")
    parser.add_argument("--body", type=int, default=128, help="bytes of a message")
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--sends", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.frames = frames(options.batch, options.body)
    with Contestant(OURS, ASYNC) as standing:
        for _ in range(options.rounds):
            measure(standing, options)


if __name__ == "__main__":
    main()
