"""Load shedding: refusing requests without decoding them.

Decoding a request is a large part of the cost of serving it, so an overloaded server refuses requests of certain codes
after a look at three values of a frame: the code, the flag, the opaque. The refusal is encoded beforehand in both
encodings, and each request's opaque is filled in. Frames that are incomplete, or not certainly such requests, are left
for the decoder, which leads to the same answers. Pure.

    compact   length 4 | word 4 | code 2 | language 1 | version 2 | opaque 4 | flag 4 | ...
    JSON      length 4 | word 4 | {"code":310,  ... "flag":0, ... "opaque":7, ...
"""

import re
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from firearrow.protocol.command import ANSWER_FLAG, ONEWAY_FLAG, Encoding
from firearrow.protocol.conversation import Fields
from firearrow.protocol.frame import PREFIX, PREFIX_SIZE, WORD_SIZE
from firearrow.protocol.serialize import encode_answer

_HEAD: Final = struct.Struct(">IIhbhii")
_CODE: Final = struct.Struct(">h")
_OPAQUE: Final = struct.Struct(">i")
_OPAQUE_AT: Final = PREFIX_SIZE + 5
_OPAQUE_END: Final = _OPAQUE_AT + _OPAQUE.size
_IN_JSON: Final = re.compile(rb'"opaque":(-?\d+)[,}]')
_ONEWAY_IN_JSON: Final = re.compile(rb'"flag":(\d+)[,}]')
_LENGTH_SIZE: Final = 4


def beginnings(codes: Iterable[int]) -> tuple[bytes, ...]:
    """The bytes after a frame's prefix by which requests of these codes are recognised, in either encoding."""
    ordered = sorted(codes)
    return (*map(_CODE.pack, ordered), *map(_json_beginning, ordered))


def _json_beginning(code: int) -> bytes:
    return b'{"code":%d,' % code


class ShedFrames(NamedTuple):
    """Frames after shedding: encoded refusals, the number of refused requests, and the bytes of all other frames."""

    answers: list[bytes]
    refused: int
    rest: bytes


class Refusals:
    """The refusal of all requests with certain codes."""

    def __init__(self, codes: frozenset[int], fields: Fields | None, code: int, remark: str) -> None:
        self._codes = codes
        self._json_codes = tuple(map(_json_beginning, sorted(codes)))
        compact = encode_answer(Encoding.COMPACT, 0, fields, code, remark)
        self._before, self._after = compact[:_OPAQUE_AT], compact[_OPAQUE_END:]
        header = encode_answer(Encoding.JSON, 0, fields, code, remark)[PREFIX_SIZE:]
        found = _IN_JSON.search(header)
        assert found is not None, "an answer has an opaque"
        self._json_before, self._json_after = header[: found.start(1)], header[found.end(1) :]

    def shed(self, data: bytes) -> ShedFrames:
        """Refuse the requests with these codes among the frames in ``data``."""
        at, size, count, codes = 0, len(data), 0, self._codes
        answers: list[bytes] = []
        kept: list[bytes] = []
        while size - at >= _HEAD.size:
            length, word, code, _, _, opaque, flag = _HEAD.unpack_from(data, at)
            end = at + _LENGTH_SIZE + length
            if end > size or word >> 25 or word & 0xFFFFFF > length - WORD_SIZE:
                break
            if not word >> 24:
                answer = self._to_json(data, at + PREFIX_SIZE, at + PREFIX_SIZE + (word & 0xFFFFFF))
            elif code not in codes or flag & ANSWER_FLAG:
                answer = None
            else:
                answer = b"" if flag & ONEWAY_FLAG else self._before + _OPAQUE.pack(opaque) + self._after
            if answer is None:
                kept.append(data[at:end])
            else:
                answers.append(answer)
                count += 1
            at = end
        return ShedFrames(answers, count, b"".join([*kept, data[at:]]))

    def _to_json(self, data: bytes, at: int, end: int) -> bytes | None:
        """The answer to a request with a JSON header: empty for a one-way request, None when it must be decoded."""
        if not data.startswith(self._json_codes, at):
            return None
        opaque, flag = _IN_JSON.search(data, at, end), _ONEWAY_IN_JSON.search(data, at, end)
        if opaque is None or flag is None or int(flag[1]) & ANSWER_FLAG:
            return None
        if int(flag[1]) & ONEWAY_FLAG:
            return b""
        header = b"%b%b%b" % (self._json_before, opaque[1], self._json_after)
        return PREFIX.pack(WORD_SIZE + len(header), len(header)) + header
