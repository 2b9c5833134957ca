"""FireArrow: a message platform compatible with Apache RocketMQ, with Spark as its data pipeline.

The everyday names of the client are here, imported when they are first used: servers do without them.
``firearrow.blocking`` has the same names for programs without a loop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firearrow.client import (
        Consumer,
        Filter,
        Message,
        MessageQueue,
        Producer,
        PullConsumer,
        RebalanceListener,
        ReceivedMessage,
        SendResult,
        SendStatus,
        Transaction,
        TransactionalProducer,
        TransactionState,
        cel,
        sql,
    )

    __version__: str

__all__ = [
    "Consumer",
    "Filter",
    "Message",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "RebalanceListener",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "Transaction",
    "TransactionState",
    "TransactionalProducer",
    "__version__",
    "cel",
    "sql",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("firearrow")
    if name in __all__:
        from firearrow import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
