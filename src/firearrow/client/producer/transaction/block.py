"""One transaction, as a block: a message is delivered if and only if the block ends well.

    async with producer.transaction(Message("payments", b"order 7")) as transaction:
        await database.commit()

The half is sent at the beginning of the block. The end of the block commits, an error inside rolls back and goes on. A
cancellation decides nothing, because what it interrupted may have happened (a database's commit does): the broker asks
back, and the producer's check function decides. For an error that leaves the same question open, call
``leave_unknown`` before it leaves the block.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from firearrow.client.misuse import NeedsAwait
from firearrow.client.producer.result import SendResult
from firearrow.client.producer.transaction.coordinator import TransactionCoordinator
from firearrow.client.producer.transaction.half import StoredHalf
from firearrow.client.producer.transaction.state import TransactionState
from firearrow.errors import ClientClosed
from firearrow.model import Message

Begin = Callable[[], Awaitable[StoredHalf]]
"""Sends the half."""


class Transaction(NeedsAwait):
    """A transaction of one message. ``producer.transaction`` makes it; use it in an ``async with`` block."""

    def __init__(self, transactions: TransactionCoordinator, begin: Begin) -> None:
        self._transactions = transactions
        self._begin = begin
        self._half: StoredHalf | None = None
        self._state: TransactionState | None = None

    @property
    def message(self) -> Message:
        """The message, with the unique key that it was sent with."""
        return self._begun.message

    @property
    def message_id(self) -> str:
        """The unique key of the message, which consumers show as the message id and check functions get."""
        return self._begun.unique_key

    @property
    def half(self) -> SendResult:
        """The result of the send of the half."""
        return self._begun.sent

    @property
    def state(self) -> TransactionState | None:
        """The state in which the transaction ended; None while it is open."""
        return self._state

    async def __aenter__(self) -> Self:
        """Send the half; raise ``SendFailed`` if that fails, and then the block does not begin."""
        if self._half is not None:
            raise ClientClosed(f"transaction {self._half.unique_key} has begun already; make one for each message")
        self._half = await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit; after an error roll back; after a cancellation or the end of the program leave it unknown."""
        if self._state is not None:
            return
        if error is None:
            await self.commit()
        elif isinstance(error, Exception):
            self._state = TransactionState.ROLLBACK
            await self._transactions.try_rollback(self._begun)
        else:
            self.leave_unknown()

    async def commit(self) -> None:
        """Have the message delivered; raise if the broker refused that or did not confirm it."""
        await self._end(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Have the message dropped; raise if the broker refused that or did not confirm it."""
        await self._end(TransactionState.ROLLBACK)

    def leave_unknown(self) -> None:
        """Decide nothing: the broker asks back, and the check function of a producer of the group decides."""
        half = self._decided(TransactionState.UNKNOWN)
        self._transactions.leave_unknown(half)

    async def _end(self, state: TransactionState) -> None:
        self._transactions.check_usable()
        await self._transactions.end(self._decided(state), state)

    def _decided(self, state: TransactionState) -> StoredHalf:
        half = self._begun
        if self._state is not None:
            raise ClientClosed(f"transaction {half.unique_key} has ended already, with {self._state}; it ends once")
        self._state = state
        return half

    @property
    def _begun(self) -> StoredHalf:
        if self._half is None:
            raise ClientClosed("the transaction has not begun; use it inside its async with block")
        return self._half
