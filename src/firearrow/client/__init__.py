"""The client: producers and consumers, on asyncio. ``firearrow.blocking`` has the same without ``await``.

Names are imported when they are first used: a question to a cluster needs no consumer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from firearrow.client.consumer.broker_queries import Bounds, PulledBytes, PullStatus
    from firearrow.client.consumer.handled_rows import HandledRows
    from firearrow.client.consumer.message import ReceivedMessage
    from firearrow.client.consumer.pull_consumer import PullConsumer
    from firearrow.client.consumer.push_consumer import Consumer
    from firearrow.client.consumer.queue.rebalance_listener import RebalanceListener
    from firearrow.client.consumer.stalls import Stall
    from firearrow.client.consumer.subscription import Filter, cel, sql
    from firearrow.client.metrics.client_metrics import ClientMetrics
    from firearrow.client.producer.producer import Producer
    from firearrow.client.producer.result import SendResult, SendStatus
    from firearrow.client.producer.selector import Selector
    from firearrow.client.producer.transaction.block import Transaction
    from firearrow.client.producer.transaction.state import TransactionState
    from firearrow.client.producer.transactional_producer import TransactionalProducer, TransactionResult
    from firearrow.model import Message, MessageQueue, StoredMessage
    from firearrow.runtime.tls_settings import ClientTls

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

_HOMES: Final = {
    "Bounds": "firearrow.client.consumer.broker_queries",
    "ClientMetrics": "firearrow.client.metrics.client_metrics",
    "ClientTls": "firearrow.runtime.tls_settings",
    "Consumer": "firearrow.client.consumer.push_consumer",
    "Filter": "firearrow.client.consumer.subscription",
    "HandledRows": "firearrow.client.consumer.handled_rows",
    "Message": "firearrow.model",
    "MessageQueue": "firearrow.model",
    "Producer": "firearrow.client.producer.producer",
    "PullConsumer": "firearrow.client.consumer.pull_consumer",
    "PullStatus": "firearrow.client.consumer.broker_queries",
    "PulledBytes": "firearrow.client.consumer.broker_queries",
    "RebalanceListener": "firearrow.client.consumer.queue.rebalance_listener",
    "ReceivedMessage": "firearrow.client.consumer.message",
    "Selector": "firearrow.client.producer.selector",
    "SendResult": "firearrow.client.producer.result",
    "SendStatus": "firearrow.client.producer.result",
    "Stall": "firearrow.client.consumer.stalls",
    "StoredMessage": "firearrow.model",
    "Transaction": "firearrow.client.producer.transaction.block",
    "TransactionResult": "firearrow.client.producer.transactional_producer",
    "TransactionState": "firearrow.client.producer.transaction.state",
    "TransactionalProducer": "firearrow.client.producer.transactional_producer",
    "cel": "firearrow.client.consumer.subscription",
    "sql": "firearrow.client.consumer.subscription",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
