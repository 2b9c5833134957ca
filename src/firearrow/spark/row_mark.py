"""The mark that tells a stored message from another at the same offset of its queue. Pure."""

from typing import NamedTuple


class Mark(NamedTuple):
    """The store time of a message, in milliseconds, and its physical offset; 0 if the offset is not known."""

    stored_ms: int
    physical: int = 0
