"""FireArrow: a message platform compatible with Apache RocketMQ, with Spark as its data pipeline.

The everyday names of the client are here, imported when they are first used: servers do without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firearrow.client import Consumer, Message, Producer, PullConsumer

__all__ = ["Consumer", "Message", "Producer", "PullConsumer"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from firearrow import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
