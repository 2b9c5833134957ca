"""A transaction without ``await``."""

from types import TracebackType
from typing import Self

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.client import Message, SendResult, TransactionState
from firearrow.errors import ClientClosed, PortalClosed


class Transaction:
    """A transaction of one message. ``producer.transaction`` makes it; use it in a ``with`` block."""

    def __init__(self, inner: client.Transaction, door: Door) -> None:
        self._inner = inner
        self._door = door

    @property
    def message(self) -> Message:
        """The message, with the unique key that it was sent with."""
        return self._inner.message

    @property
    def message_id(self) -> str:
        """The unique key of the message, which consumers show as the message id and check functions get."""
        return self._inner.message_id

    @property
    def half(self) -> SendResult:
        """The result of the send of the half."""
        return self._inner.half

    @property
    def state(self) -> TransactionState | None:
        """The state in which the transaction ended; None while it is open."""
        return self._inner.state

    def __enter__(self) -> Self:
        """Send the half; raise ``SendFailed`` if that fails, and then the block does not begin."""
        self._door.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit; after an error roll back; after an interrupt or the end of the program leave it unknown."""
        try:
            self._door.call(self._inner.__aexit__(kind, error, trace))
        except (ClientClosed, PortalClosed):  # the second after a fork
            if error is None:
                raise

    def commit(self) -> None:
        """Have the message delivered; raise if the broker refused that or did not confirm it."""
        self._door.call(self._inner.commit())

    def rollback(self) -> None:
        """Have the message dropped; raise if the broker refused that or did not confirm it."""
        self._door.call(self._inner.rollback())

    def leave_unknown(self) -> None:
        """Decide nothing: the broker asks back, and the check function of a producer of the group decides."""
        self._door.run(self._inner.leave_unknown)
