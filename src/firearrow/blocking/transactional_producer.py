"""The producer of transactions without ``await``. A local transaction runs in the thread that calls."""

import inspect
from collections.abc import Sequence
from typing import Any, Unpack, cast

from firearrow.blocking.producer import Producer
from firearrow.client import Message, MessageQueue, Selector, TransactionResult, TransactionState
from firearrow.client.doors import Doors
from firearrow.client.producer.settings import ProducerOptions
from firearrow.client.producer.transaction.check_back import Check
from firearrow.client.producer.transaction.coordinator import checked_state
from firearrow.client.producer.transaction.half import check_group
from firearrow.client.producer.transaction.users_function import check_users_function
from firearrow.client.producer.transactional_producer import Execute
from firearrow.errors import SettingsError
from firearrow.serializers import Serializer, V, is_coroutine_function


class TransactionalProducer(Producer[V]):
    """A producer whose transactions are functions.

    ``check`` gets a message and returns the ``TransactionState`` of its transaction, for brokers that ask. It runs in a
    thread of its own, or on the producer's loop if it is a coroutine function.
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

    def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionResult:
        """Send a half, call ``execute`` with the message in this thread, and end the transaction as it returns.

        Raise ``SendFailed`` if the half was not stored, and then ``execute`` was not called.
        """
        check_users_function(execute, "execute")
        if is_coroutine_function(execute):
            raise SettingsError("execute is a coroutine function, which is not awaited here; give a plain function")
        with self.transaction(message, queue=queue, selector=selector, timeout_ms=timeout_ms) as transaction:
            try:
                returned: object = execute(transaction.message)
            except BaseException:
                transaction.leave_unknown()
                raise
            if inspect.iscoroutine(returned):
                returned.close()
            state = checked_state(returned, transaction.message)
            if state is TransactionState.UNKNOWN:
                transaction.leave_unknown()
            elif state is TransactionState.ROLLBACK:
                transaction.rollback()
        return TransactionResult(state, transaction.half)
