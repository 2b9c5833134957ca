"""Hosts and ids of many records. Few hosts write many messages, so each distinct host is turned into text once."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from firearrow.columns.heads import Heads
from firearrow.columns.slices import numbers, text_of_width
from firearrow.record.hosts import host_address

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""The two hexadecimal digits of each byte, as one 16-bit number."""


def host_texts(heads: Heads, field: str) -> pa.Array:
    """Return ``ip:port`` of a host field of all records."""

    def texts(raw: np.ndarray) -> pa.Array:
        width = raw.dtype.itemsize
        packed = pa.Array.from_buffers(pa.binary(width), len(raw), [None, pa.py_buffer(np.ascontiguousarray(raw))])
        encoded = packed.dictionary_encode()
        words = pa.array([str(host_address(each)) for each in encoded.dictionary.to_pylist()], pa.string())
        return words.take(encoded.indices)

    return _by_layout(heads, lambda head: texts(head[field]))


def message_ids(heads: Heads) -> pa.Array:
    """Return the offsetMsgId of all records: store host and physical offset, in upper-case hexadecimal."""

    def texts(head: np.ndarray) -> pa.Array:
        width = head.dtype["store_host"].itemsize
        raw = np.empty((len(head), width + 8), np.uint8)
        raw[:, :width] = np.ascontiguousarray(head["store_host"]).view(np.uint8).reshape(-1, width)
        raw[:, width:] = np.ascontiguousarray(head["physical_offset"]).view(np.uint8).reshape(-1, 8)
        return text_of_width(_HEX[raw].view(np.uint8).reshape(-1), 2 * (width + 8))

    return _by_layout(heads, texts)


def _by_layout(heads: Heads, make: Callable[[np.ndarray], pa.Array]) -> pa.Array:
    """Make a column from the heads of each layout, in the order of the records."""
    if not heads.rows_of:
        return pa.array([], pa.string())
    made = [make(head) for _, head in heads.rows_of.values()]
    if len(made) == 1:
        return made[0]
    order = np.empty(len(heads), np.int64)
    at = 0
    for rows, head in heads.rows_of.values():
        order[rows] = np.arange(at, at + len(head))
        at += len(head)
    return pa.concat_arrays(made).take(numbers(order, pa.int64()))
