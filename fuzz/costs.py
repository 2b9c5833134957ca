"""The costs of parsing: CPU of the worst inputs that were found, beside an ordinary send's.

The unit is an ordinary send: the CPU that a server takes for a signed send of a stock client until it knows whose
send it is (frame, header, fields, signature). An input may take as much as three such sends, because any request
takes something, and for each of its bytes ``times`` what a byte of the send takes: 10 for parsers that anybody reaches
before a key is checked. Parsers behind a check have limits of their own, so that they do not grow unnoticed either.

Code is measured as it runs in a server. A fuzz target runs it with counters of branches, so the target keeps the inputs
that took the most there, and ``python -m fuzz.costs TARGET FOLDER`` measures them in a process without counters.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from campaigns.samples import SEND
from firearrow.protocol.auth import Credentials, sign, signing_fields
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import Connection, RequestArrived
from firearrow.protocol.layout import to_text
from firearrow.protocol.serialize import encode_request
from fuzz.found_inputs import FLOOR_SENDS, ORDINARY_BYTES, TIMES, USUAL, allowed_sends

STRANGER: Final = Credentials("nobody", "secret")
MEASURED_S: Final = 0.001
"""CPU seconds of one measurement: shorter ones show the clock."""
MEASUREMENTS: Final = 25

ANYBODY: Final = "anybody"
USER: Final = "a user"
MEMBER: Final = "a broker of the group"
FILES: Final = "files of the server"
PIPELINE: Final = "a pipeline's own reads"

Parse = Callable[[bytes], object]


class Reach(NamedTuple):
    """The peers that reach the parser of a target, and the CPU that a byte may take, in ordinary sends."""

    who: str
    times: int = TIMES
    floor: int = FLOOR_SENDS
    """The number of ordinary sends that any input may cost."""


UNPROVED: Final = Reach(ANYBODY)


class Cost(NamedTuple):
    """The cost of one input."""

    data: bytes
    seconds: float
    ordinary_s: float
    """The CPU of an ordinary send at the same time."""
    reach: Reach

    @property
    def share(self) -> float:
        """The part of the allowed CPU that was taken; above 1 the limit is breached."""
        return self.seconds / (self.ordinary_s * allowed_sends(len(self.data), self.reach.times, self.reach.floor))


@cache
def ordinary_send() -> bytes:
    """The frame of an ordinary send."""
    body = bytes(256)
    while True:
        extra = signing_fields(to_text(SEND), body, STRANGER)
        frame = encode_request(Encoding.JSON, SEND, 1, extra=extra, body_size=len(body)) + body
        if len(frame) == ORDINARY_BYTES:
            return frame
        body = bytes(len(body) + ORDINARY_BYTES - len(frame))


def read_as_a_stranger(data: bytes) -> None:
    """Read frames of a peer that has proved nobody, and check their signatures."""
    for event in Connection(learns=False).receive_data(data):
        if isinstance(event, RequestArrived):
            sign(event.ext_fields, event.body, STRANGER.secret_key)


def cpu_of(parse: Parse, data: bytes) -> float:
    """Return the seconds of CPU that parsing takes."""
    rounds = 1
    while True:
        began = time.thread_time()
        for _ in range(rounds):
            with suppress(Exception):  # the target judges what may be raised
                parse(data)
        taken = time.thread_time() - began
        if taken >= MEASURED_S:
            return taken / rounds
        rounds *= 2


def cost_of(parse: Parse, data: bytes, reach: Reach = UNPROVED) -> Cost:
    """Measure an input and an ordinary send in turn; take the pair with the median ratio: a host's speed steps."""
    pairs = [(cpu_of(parse, data), cpu_of(read_as_a_stranger, ordinary_send())) for _ in range(MEASUREMENTS)]
    taken, ordinary = sorted(pairs, key=lambda pair: pair[0] / pair[1])[MEASUREMENTS // 2]
    return Cost(data, taken, ordinary, reach)


def costs_of(parse: Parse, inputs: Iterable[bytes], reach: Reach) -> list[Cost]:
    """Measure inputs, the one with the largest share of its allowed CPU first."""
    return sorted((cost_of(parse, data, reach) for data in inputs), key=lambda cost: cost.share, reverse=True)


REACHES: Final = {
    "fuzz_access": Reach(FILES, 40, 10),
    "fuzz_batch": Reach(USER),
    "fuzz_bodies": Reach(USER, 40, 10),
    "fuzz_cel": Reach(USER, 400, 30),
    "fuzz_columns": Reach(PIPELINE, 2000, 300),
    "fuzz_compression": Reach(USER, 200, 10),
    "fuzz_epoch_file": Reach(FILES, 10, 10),
    "fuzz_fastjson": Reach(USER, 40, 10),
    "fuzz_frame": Reach(ANYBODY),
    "fuzz_greeting": Reach(ANYBODY),
    "fuzz_ha_handshake": Reach(ANYBODY),
    "fuzz_ha_stream": Reach(ANYBODY),
    "fuzz_header_compact": Reach(ANYBODY),
    "fuzz_header_json": Reach(ANYBODY),
    "fuzz_http": Reach(ANYBODY),
    "fuzz_journal": Reach(FILES, 10, 10),
    "fuzz_op_message": Reach(FILES),
    "fuzz_plain_acl": Reach(FILES, 3000, 300),
    "fuzz_properties": Reach(USER),
    "fuzz_record": Reach(MEMBER),
    "fuzz_send_shape": Reach(USER, 20, 10),
    "fuzz_sql": Reach(USER, 400, 50),
    "fuzz_table_bodies": Reach(PIPELINE, 40, 10),
    "fuzz_timer_files": Reach(FILES, 3000, 300),
}
"""Every target. Limits behind a check are two to four times what was found.

Shapes of sends are learned from peers that have proved who they are."""


def parse_of(target: str) -> Parse:
    """Return the function that a server runs over the bytes of a target."""
    module = importlib.import_module(f"fuzz.{target}")
    parse: Parse = getattr(module, "parse", module.target)
    return parse


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m fuzz.costs", description=__doc__)
    arguments.add_argument("target", choices=sorted(REACHES))
    arguments.add_argument("folder", type=Path, help=f"inputs; the one named {USUAL} is measured for comparison")
    options = arguments.parse_args()
    parse, reach = parse_of(options.target), REACHES[options.target]
    inputs = {path.name: path.read_bytes() for path in sorted(options.folder.iterdir())}
    usual = inputs.pop(USUAL)
    worst = next(iter(costs_of(parse, filter(None, inputs.values()), reach)), cost_of(parse, usual, reach))
    figures = {
        "input": worst.data.hex(),
        "bytes": len(worst.data),
        "us": round(worst.seconds * 1e6, 1),
        "of_allowed": round(worst.share, 2),
        "usual_bytes": len(usual),
        "usual_us": round(cost_of(parse, usual).seconds * 1e6, 1),
        "send_us": round(worst.ordinary_s * 1e6, 1),
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
