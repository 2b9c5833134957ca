"""The client: producers and consumers, on asyncio. ``firearrow.blocking`` has the same without ``await``."""

from firearrow.client.producer.producer import Producer
from firearrow.client.producer.result import SendResult, SendStatus
from firearrow.client.producer.selector import Selector
from firearrow.model import Message, MessageQueue

__all__ = ["Message", "MessageQueue", "Producer", "Selector", "SendResult", "SendStatus"]
