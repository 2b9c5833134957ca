"""Writes the lines of the benchmark to standard output: ``python -m benchmarks.produce.lines KIND LINES``.

Line ``n`` has key ``k{n % 8}`` and the body ``n``, padded to 100 bytes: as JSON for ``firearrow produce -f json``, or
with the key before a colon for ``kcat -K:``.
"""

import sys
from collections.abc import Iterator

KEYS = 8
BODY = 100
AT_ONCE = 10_000


def body(number: int) -> str:
    """The body of a line: its number, and what fills it up."""
    return f"{number} ".ljust(BODY, "x")


def json_line(number: int) -> str:
    """For ``firearrow produce``."""
    return f'{{"body": "{body(number)}", "shardingKey": "k{number % KEYS}"}}\n'


def keyed_line(number: int) -> str:
    """For ``kcat``."""
    return f"k{number % KEYS}:{body(number)}\n"


KINDS = {"json": json_line, "keyed": keyed_line}


def chunks(kind: str, count: int) -> Iterator[bytes]:
    """All lines, many at once."""
    line = KINDS[kind]
    for first in range(0, count, AT_ONCE):
        yield "".join(line(number) for number in range(first, min(first + AT_ONCE, count))).encode()


def main() -> None:
    """The command."""
    for chunk in chunks(sys.argv[1], int(sys.argv[2])):
        sys.stdout.buffer.write(chunk)


if __name__ == "__main__":
    main()
