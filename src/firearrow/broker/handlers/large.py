"""Answers about everything that there is of something: put together in turns, for there may be very much."""

from asyncio import sleep
from collections.abc import Iterable
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused

ANSWER_BYTES_MAX: Final = 15 << 20
"""Clients take frames of 16 MiB."""


async def put_together(pieces: Iterable[bytes], what: str) -> bytearray:
    """One body of many pieces, others having their turn after each; ``what`` there is too much of, and what to do."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            remark = f"more than an answer of {ANSWER_BYTES_MAX >> 20} MiB holds"
            raise Refused(ResponseCode.SYSTEM_ERROR, what.format(remark))
        await sleep(0)
    return body
