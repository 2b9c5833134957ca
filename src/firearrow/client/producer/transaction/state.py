"""The states of a transaction, and which state answers a check-back. Pure.

A broker that knows a half without an end asks a producer of its group. The answer follows from the unique key of the
half: UNKNOWN while this producer's transaction is open, the decision if this producer has made one that the broker has
not confirmed, otherwise the check function decides. Java: ``LocalTransactionState``.
"""

from enum import StrEnum
from typing import Final

from firearrow.model import flags

MOST_DECISIONS: Final = 10_000
"""Unconfirmed decisions that a producer remembers; the oldest is forgotten, and the check function decides on it."""


class TransactionState(StrEnum):
    """The decision about a half."""

    COMMIT = "COMMIT"
    """The message is delivered."""
    ROLLBACK = "ROLLBACK"
    """The message is dropped."""
    UNKNOWN = "UNKNOWN"
    """The broker asks again later."""


WIRE_STATES: Final = {
    TransactionState.COMMIT: flags.COMMIT,
    TransactionState.ROLLBACK: flags.ROLLBACK,
    TransactionState.UNKNOWN: 0,
}
"""The flag that END_TRANSACTION carries for each state."""


class TransactionTable:
    """The transactions of one producer, by the unique keys of their messages."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}
        self._unconfirmed: dict[str, TransactionState] = {}

    def __len__(self) -> int:
        """Return the number of open transactions."""
        return len(self._open)

    def begin(self, key: str) -> None:
        """Note that a half is about to be sent; a decision on an earlier one with the same key is forgotten."""
        self._open[key] = None
        self._unconfirmed.pop(key, None)

    def end(self, key: str) -> None:
        """Note that a transaction needs no memory: its half was not sent, its end is confirmed, or it stays unknown."""
        self._open.pop(key, None)

    def keep(self, key: str, state: TransactionState) -> None:
        """Remember a decision that the broker has not confirmed."""
        self._open.pop(key, None)
        self._unconfirmed[key] = state
        if len(self._unconfirmed) > MOST_DECISIONS:
            del self._unconfirmed[next(iter(self._unconfirmed))]

    def confirm(self, key: str) -> None:
        """Note that the broker has confirmed the answer to a check-back."""
        self._unconfirmed.pop(key, None)

    def state_of(self, key: str) -> TransactionState | None:
        """Return the answer to a check-back; None: the check function decides."""
        if key in self._open:
            return TransactionState.UNKNOWN
        return self._unconfirmed.get(key)
