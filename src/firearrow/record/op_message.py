"""Op messages: the bodies that say which half messages are over.

An op message lies in ``RMQ_SYS_TRANS_OP_HALF_TOPIC`` with tag ``d``. Its body is a queue offset of the half topic in
decimal digits (4.9: one for each message), or several, separated by commas (5.x writes a comma after each). 4.9 reads
only a body without a comma; both versions and this module read the first form, so a single offset is written so.
Java: ``TransactionalMessageServiceImpl.fillOpRemoveMap``, ``getOpMessage``.
"""

from collections.abc import Iterable, Iterator
from typing import Final

OP_TAG: Final = "d"
_MAX_DIGITS: Final = 19
_SEPARATOR: Final = b","


def parse_op(body: bytes) -> list[int]:
    """Return the offsets in the body of an op message; parts that are not offsets are skipped, as Apache skips them."""
    return [int(part) for part in body.split(_SEPARATOR) if len(part) <= _MAX_DIGITS and part.isdigit()]


def is_batched(body: bytes) -> bool:
    """Whether a body has the form that 4.9 cannot read."""
    return _SEPARATOR in body


def op_bodies(offsets: Iterable[int], *, max_size: int, is_single: bool) -> Iterator[bytes]:
    """Yield the bodies for ``offsets``: few of at most about ``max_size`` bytes, or with ``is_single`` one for each."""
    parts: list[bytes] = []
    size = 0
    for offset in offsets:
        part = b"%d" % offset
        if parts and (is_single or size + len(part) + 1 > max_size):
            yield _joined(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield _joined(parts)


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else _SEPARATOR.join(parts) + _SEPARATOR
