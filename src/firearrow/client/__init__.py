"""The client: producers and consumers, on asyncio. ``firearrow.blocking`` has the same without ``await``."""

from firearrow.client.consumer.flow import Stall
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.pull import Bounds, PullConsumer
from firearrow.client.consumer.pulling import PulledBytes, PullStatus
from firearrow.client.consumer.push import Consumer
from firearrow.client.consumer.rebalance import RebalanceListener
from firearrow.client.producer.producer import Producer
from firearrow.client.producer.result import SendResult, SendStatus
from firearrow.client.producer.selector import Selector
from firearrow.model import Message, MessageQueue
from firearrow.runtime.tlssettings import ClientTls

__all__ = [
    "Bounds",
    "ClientTls",
    "Consumer",
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
]
