"""The client without ``await``: the same names, for programs without a loop.

    with Producer("127.0.0.1:9876", group="shop") as producer:
        producer.send(Message.of("orders", b"one espresso"))

    with Consumer("127.0.0.1:9876", group="shop", topics="orders") as consumer:
        for message in consumer:
            with message.process():
                ...

Each producer or consumer has a loop in a thread of its own. Any number of threads may call it. Open it in the process
that uses it: after a fork every call raises an error.
"""

from firearrow.blocking.consumer import Consumer
from firearrow.blocking.message import ReceivedMessage
from firearrow.blocking.producer import Producer
from firearrow.blocking.pull import PullConsumer
from firearrow.blocking.transaction import Transaction
from firearrow.blocking.transactional_producer import TransactionalProducer
from firearrow.client import (
    Bounds,
    ClientMetrics,
    ClientTls,
    Filter,
    HandledRows,
    Message,
    MessageQueue,
    PulledBytes,
    PullStatus,
    RebalanceListener,
    Selector,
    SendResult,
    SendStatus,
    Stall,
    StoredMessage,
    TransactionResult,
    TransactionState,
    cel,
    sql,
)

__all__ = [
    "Bounds",
    "ClientMetrics",
    "ClientTls",
    "Consumer",
    "Filter",
    "HandledRows",
    "Message",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PullStatus",
    "PulledBytes",
    "RebalanceListener",
    "ReceivedMessage",
    "Selector",
    "SendResult",
    "SendStatus",
    "Stall",
    "StoredMessage",
    "Transaction",
    "TransactionResult",
    "TransactionState",
    "TransactionalProducer",
    "cel",
    "sql",
]
