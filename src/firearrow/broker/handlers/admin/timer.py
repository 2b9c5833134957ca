"""The progress of timers and number of waiting messages, for slaves and operators. Java: ``AdminBrokerProcessor``."""

from firearrow.broker.timer.timers import Timers
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.replication.replication import GetTimerCheckPoint, GetTimerMetrics
from firearrow.remoting.handlers import Answer, Call, Handlers


class TimerHandlers:
    """Answers questions about timers."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetTimerCheckPoint, self.check_point, urgent=True)
        handlers.on(GetTimerMetrics, self.metrics, urgent=True)

    def check_point(self, _request: GetTimerCheckPoint, _call: Call) -> Answer:
        """Return how far the timers are."""
        return Answer(body=self._timers.check.encode())

    def metrics(self, _request: GetTimerMetrics, _call: Call) -> Answer:
        """Return the number of timed messages by topic."""
        return Answer(body=encode_body(self._timers.counts.table()))
