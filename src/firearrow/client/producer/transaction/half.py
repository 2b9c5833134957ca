"""From a message to a half, from a half to the request that ends it, and when that request may be repeated. Pure.

A half is a message with the prepared bit that its broker shows to no consumer until it is committed.

A commit is repeated only if nothing was sent, or if the broker refused it unhandled: Apache's brokers store a repeated
commit as a second message. Without a confirmation nothing is lost, because the broker asks back. A rollback may be
repeated freely. For the same reason a half is not sent again if it may have been stored: nobody would end the first
one, and its check-back could deliver the message a second time.

Java: ``DefaultMQProducerImpl.sendMessageInTransaction``, ``endTransaction``.
"""

from msgspec import Struct
from msgspec.structs import replace

from firearrow.client.producer.outgoing import SENT_ALONE, OutgoingMessage, check, compose
from firearrow.client.producer.result import SendResult
from firearrow.client.producer.retry_policy import WORTH_A_RETRY
from firearrow.client.producer.settings import ProducerSettings
from firearrow.client.producer.transaction.state import WIRE_STATES, TransactionState
from firearrow.errors import FireArrowError, IllegalMessage, RequestRefused, SettingsError
from firearrow.model import EpochMs, Message, StoredMessage, flags, keys
from firearrow.model.names import DEFAULT_PRODUCER_GROUP, is_retry_topic
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.message_id import UniqueKeys, parse_offset_message_id


class StoredHalf(Struct, frozen=True):
    """A stored half: its message with its unique key, and where its broker stored it."""

    message: Message
    sent: SendResult

    @property
    def unique_key(self) -> str:
        """The unique key of the message."""
        return self.sent.message_id

    def end(self, group: str, state: TransactionState) -> EndTransaction:
        """Return the request that ends the transaction."""
        _, physical_offset = parse_offset_message_id(self.sent.offset_message_id)
        return EndTransaction(
            topic=self.message.topic,
            producer_group=group,
            tran_state_table_offset=self.sent.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=WIRE_STATES[state],
            from_transaction_check=False,
            msg_id=self.unique_key,
            transaction_id=self.sent.transaction_id,
        )


def check_group(group: str) -> None:
    """Raise ``SettingsError`` for a group that no transaction may use."""
    if group == DEFAULT_PRODUCER_GROUP:
        raise SettingsError(
            f"a transaction needs a producer group of its own, and this producer has {group}; give group=..., "
            "because brokers ask any producer of the group what became of a transaction"
        )


def check_half(message: Message, settings: ProducerSettings) -> None:
    """Raise ``IllegalMessage`` if the message cannot be sent in a transaction."""
    if not isinstance(message, Message):
        raise IllegalMessage(
            f"a transaction takes one Message; this is {message!r}: write Message(topic, body), and a transaction for "
            "each message"
        )
    if not SENT_ALONE.isdisjoint(message.properties):
        raise IllegalMessage(
            f"a message of topic {message.topic!r} is delayed and in a transaction, which brokers cannot combine; "
            "leave out the delay, or send the delayed message when the committed one is handled"
        )
    if is_retry_topic(message.topic):
        raise IllegalMessage(f"topic {message.topic!r} is a retry topic, which has no transactions; send to a topic")
    check(message, settings)


def prepare_half(
    message: Message, settings: ProducerSettings, unique_keys: UniqueKeys, now: EpochMs
) -> tuple[Message, OutgoingMessage]:
    """Return the message with its unique key, and the half to be sent."""
    check_group(settings.group)
    check_half(message, settings)
    if keys.UNIQ_KEY not in message.properties:
        message = message.with_properties({keys.UNIQ_KEY: unique_keys.next(now)})
    marked = message.with_properties({keys.TRAN_MSG: "true", keys.PGROUP: settings.group})
    outgoing = compose(marked, settings, unique_keys, now)
    return message, replace(outgoing, sys_flag=outgoing.sys_flag | flags.PREPARED)


def answer_to(asked: CheckTransactionState, half: StoredMessage, group: str, state: TransactionState) -> EndTransaction:
    """Return the answer to a check-back."""
    return EndTransaction(
        topic=asked.topic,
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=WIRE_STATES[state],
        from_transaction_check=True,
        msg_id=half.unique_key or asked.msg_id or "",
        transaction_id=asked.transaction_id,
    )


def may_repeat(error: FireArrowError, state: TransactionState) -> bool:
    """Whether the request that ends a transaction may be sent again after this error."""
    if isinstance(error, RequestRefused):
        return error.code in WORTH_A_RETRY
    if state is TransactionState.ROLLBACK:
        return error.retryable
    return error.retryable and not error.may_have_happened
