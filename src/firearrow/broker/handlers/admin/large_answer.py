"""Large answers, such as all topics: built from pieces over several turns of the loop."""

from collections.abc import Iterable
from typing import Final

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.runtime.turn import breathe

ANSWER_BYTES_MAX: Final = 15 << 20
"""The most bytes of an answer: clients accept frames of up to 16 MiB."""


async def put_together(pieces: Iterable[bytes], what: str) -> bytearray:
    """Join pieces into one body, with a pause after every piece; ``what`` is the text of the refusal when too large."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            remark = f"more than an answer of {ANSWER_BYTES_MAX >> 20} MiB holds"
            raise Refused(ResponseCode.SYSTEM_ERROR, what.format(remark))
        await breathe()
    return body
