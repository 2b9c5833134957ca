"""The client: producers and consumers, on asyncio. ``firearrow.blocking`` has the same without ``await``."""

from firearrow.client.consumer.broker_queries import Bounds, PulledBytes, PullStatus
from firearrow.client.consumer.handled_rows import HandledRows
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.pull_consumer import PullConsumer
from firearrow.client.consumer.push_consumer import Consumer
from firearrow.client.consumer.queue.rebalance_listener import RebalanceListener
from firearrow.client.consumer.stalls import Stall
from firearrow.client.consumer.subscription import Filter, cel, sql
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
