"""A producer of transactions in the style of Java's ``TransactionMQProducer``: a local function and a check function.

    async with TransactionalProducer("127.0.0.1:9876", group="shop", check=look_up) as producer:
        result = await producer.send_in_transaction(Message("payments", b"order 7"), pay)

A local function that fails leaves its transaction unknown, as Java's does, because what failed may have happened; its
error goes on to the caller, which Java's does not.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack, cast

from msgspec import Struct

from firearrow.client.doors import Doors
from firearrow.client.producer.producer import Producer
from firearrow.client.producer.result import SendResult
from firearrow.client.producer.selector import Selector
from firearrow.client.producer.settings import ProducerOptions
from firearrow.client.producer.transaction.check_back import Check
from firearrow.client.producer.transaction.half import check_group
from firearrow.client.producer.transaction.state import TransactionState
from firearrow.client.producer.transaction.users_function import check_users_function
from firearrow.model import Message, MessageQueue
from firearrow.serializers import Serializer, V

Execute = Callable[[Message], TransactionState] | Callable[[Message], Awaitable[TransactionState]]
"""A local transaction: gets the message, with its unique key, and returns the state."""


class TransactionResult(Struct, frozen=True):
    """The outcome of ``send_in_transaction``."""

    state: TransactionState
    """The state that the local transaction returned."""
    half: SendResult
    """The result of the send of the half."""

    @property
    def message_id(self) -> str:
        """The unique key from the producer, which consumers show as the message id."""
        return self.half.message_id


class TransactionalProducer(Producer[V]):
    """A producer whose transactions are functions.

    ``check`` gets a message and returns the ``TransactionState`` of its transaction, for brokers that ask. It and local
    transactions may be coroutine functions; plain functions run in threads.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        check: Check,
        serializer: Serializer[Any] | None = None,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        check_group(group)
        check_users_function(check, "check")
        super().__init__(
            name_servers,
            group=group,
            serializer=cast("Serializer[V]", serializer),
            check=check,
            doors=doors,
            **options,
        )

    async def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionResult:
        """Send a half, call ``execute`` with the message, and end the transaction as it returns.

        Raise ``SendFailed`` if the half was not stored, and then ``execute`` was not called.
        """
        check_users_function(execute, "execute")
        async with self.transaction(message, queue=queue, selector=selector, timeout_ms=timeout_ms) as transaction:
            try:
                state = await self._transactions.execute(execute, transaction.message)
            except BaseException:
                transaction.leave_unknown()
                raise
            if state is TransactionState.UNKNOWN:
                transaction.leave_unknown()
            elif state is TransactionState.ROLLBACK:
                await transaction.rollback()
        return TransactionResult(state, transaction.half)
