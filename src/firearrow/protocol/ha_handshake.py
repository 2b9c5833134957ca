"""The greeting of replicas in a group with a coordinator, before the log is copied as in `ha_stream`. Pure.

A connection belongs to one epoch: the slave says which one it has promised, and the master ends a connection of any
other. So every later report of the slave is an acknowledgement in that epoch. Numbers are big-endian and signed::

    slave to master    magic 4, replica 4, epoch 4, number of its directory 8
    master to slave    magic 4, epoch 4, end of the log 8, number of epochs 4, then for each: epoch 4, start offset 8

The master's history tells the slave how much of its log the two have in common. The magic cannot begin a report of a
slave without a coordinator, because no log is that long.
"""

import struct
from typing import Final, NamedTuple

from firearrow.errors import BadFrame
from firearrow.model.epochs import Epoch, Epochs

MAGIC: Final = 0x46414841
HELLO: Final = struct.Struct(">iiiq")
HEAD: Final = struct.Struct(">iiqi")
ENTRY: Final = struct.Struct(">iq")
MOST_EPOCHS: Final = 1 << 20


class Hello(NamedTuple):
    """The first words of a slave."""

    replica: int
    epoch: int
    directory: int


class Welcome(NamedTuple):
    """The master's answer to `Hello`."""

    epoch: int
    end: int
    history: Epochs


def encode_hello(hello: Hello) -> bytes:
    """Return the first bytes of a slave."""
    return HELLO.pack(MAGIC, *hello)


def decode_hello(data: bytes) -> Hello | None:
    """Read the first bytes of a slave; None while they are too few."""
    if len(data) < HELLO.size:
        return None
    magic, replica, epoch, directory = HELLO.unpack_from(data)
    if magic != MAGIC or replica < 1 or epoch < 1:
        raise BadFrame("a slave without coordinatorAddress cannot copy a master that has one; set it there too")
    return Hello(replica, epoch, directory)


def encode_welcome(welcome: Welcome) -> bytes:
    """Return the first bytes of a master."""
    entries = welcome.history.entries
    head = HEAD.pack(MAGIC, welcome.epoch, welcome.end, len(entries))
    return head + b"".join(ENTRY.pack(entry.epoch, entry.start_offset) for entry in entries)


def decode_welcome(data: bytes) -> Welcome | None:
    """Read the first bytes of a master; None while they are too few."""
    if len(data) < HEAD.size:
        return None
    magic, epoch, end, count = HEAD.unpack_from(data)
    if magic != MAGIC or end < 0 or not 0 <= count <= MOST_EPOCHS:
        raise BadFrame("the master does not greet as one with a coordinator; set the same coordinatorAddress there")
    if len(data) < HEAD.size + count * ENTRY.size:
        return None
    entries = ENTRY.iter_unpack(data[HEAD.size : HEAD.size + count * ENTRY.size])
    try:
        return Welcome(epoch, end, Epochs(tuple(Epoch(*entry) for entry in entries)))
    except ValueError as error:
        raise BadFrame(f"the master tells a history that cannot be: {error}") from error
