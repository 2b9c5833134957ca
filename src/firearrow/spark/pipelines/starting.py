"""Starts streaming queries one after the other, and again where Spark gave their Python worker too little time.

Spark starts a Python worker for the source of each query, and waits 10 seconds for it to connect; the time is fixed. On
a busy machine several workers that start together take longer, so a query begins when the one before has its worker.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from firearrow.runtime.clock import block
from firearrow.spark.explanation import NO_WORKER

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ATTEMPTS: Final = 3
UNSETTLED: Final = ("Initializing", "Terminated")
"""First words of Spark's status of a query whose worker has not connected, or that has failed and is still active."""
PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.05


def started(begin: "Callable[[], StreamingQuery]") -> "StreamingQuery":
    """Begin a query and wait until it has its worker; begin it again if the worker did not connect in time."""
    for _ in range(ATTEMPTS - 1):
        query = begin()
        _settle(query)
        failure = None if query.isActive else query.exception()
        if failure is None or NO_WORKER not in str(failure):
            return query
    return begin()


def _settle(query: "StreamingQuery") -> None:
    for _ in range(round(PATIENCE_S / LOOK_S)):
        if not query.isActive or not query.status["message"].startswith(UNSETTLED):
            return
        block(LOOK_S)
