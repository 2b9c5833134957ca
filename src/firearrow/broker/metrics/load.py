"""Load: turns of the loop, refused sends, lanes, connections and their budgets, parked pulls.

Budgets are of all connections together, with the largest of any connection beside them: there may be ten thousands.
"""

from collections.abc import Iterator, Sequence

from firearrow.broker.handlers.message.pull import PullHandlers
from firearrow.broker.handlers.message.send import SendHandlers
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.metrics.storage import counter, gauge
from firearrow.broker.registration import Registration
from firearrow.broker.statistics.watch import Watch
from firearrow.remoting.server import Server
from firearrow.telemetry.metrics import Family


class LoadMetrics:
    """Metrics of the load of one broker, by kind of work."""

    def __init__(
        self, lanes: Lanes, watch: Watch, sends: SendHandlers, pulls: PullHandlers, registration: Registration
    ) -> None:
        self._lanes = lanes
        self._watch = watch
        self._sends = sends
        self._pulls = pulls
        self._registration = registration
        self.servers: list[Server] = []
        """The ports of the broker."""

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        waiting = [((("processor", "send"),), float(sum(map(len, self._sends.replies.gate.lines))))]
        waiting.append(((("processor", "pull"),), float(len(self._pulls.parked))))
        yield Family("rocketmq_processor_watermark", "gauge", "Requests that wait for their answer", waiting)
        failing = self._registration.failing
        yield gauge("firearrow_registrations_failing", "Name servers that did not take the last one", failing)
        yield from self._turns()
        yield from self._jobs()
        yield from self._connections()

    def _turns(self) -> Iterator[Family]:
        watch, admission = self._watch, self._sends.admission
        yield Family("firearrow_turn_seconds", "histogram", "Turns of the loop with sends", [((), admission.turns)])
        lines = self._sends.replies.gate.lines
        levels = zip(("written", "synced"), lines, strict=True)
        waits = [((("level", level),), line.waits) for level, line in levels]
        yield Family("firearrow_send_wait_seconds", "histogram", "Stored messages that waited for the disk", waits)
        yield gauge("firearrow_disk_queue_seconds", "How long answers have waited for the disk", watch.waits_ms / 1000)
        yield counter("firearrow_loop_holds_total", "Times of 20 ms or more without an answer", watch.holds)
        yield gauge("firearrow_loop_hold_seconds_max", "The longest of them", watch.longest_hold_ms / 1000)
        yield counter("firearrow_sends_refused_total", "Sends refused because the broker was busy", watch.refused)
        yield counter("firearrow_sends_failed_total", "Sends that the store did not take", watch.failed)
        yield gauge("firearrow_load_shedding", "1 while connections are read less often", float(admission.pace_s > 0))
        yield gauge("firearrow_parked_pulls", "Pulls that wait for a message", len(self._pulls.parked))
        yield gauge("firearrow_parked_pull_bytes", "Memory that parked pulls count", self._pulls.parked.held)

    def _jobs(self) -> Iterator[Family]:
        lanes = [((("lane", wait.value),), self._lanes.lane(wait)) for wait in WaitKind]
        waiting = [(labels, float(len(lane))) for labels, lane in lanes]
        running = [(labels, float(lane.running)) for labels, lane in lanes]
        refused = [(labels, float(lane.refused)) for labels, lane in lanes]
        oneway = [(labels, float(lane.refused_oneway)) for labels, lane in lanes]
        yield Family("firearrow_lane_waiting", "gauge", "Requests that wait for a place in a lane", waiting)
        yield Family("firearrow_lane_running", "gauge", "Requests that have a place in a lane", running)
        yield Family("firearrow_lane_refused_total", "counter", "Requests refused because too many waited", refused)
        yield Family("firearrow_lane_refused_oneway_total", "counter", "Those whose senders do not hear of it", oneway)

    def _connections(self) -> Iterator[Family]:
        loads = [server.load for server in self.servers]
        for name, says in (
            ("connections", "Open connections"),
            ("in_flight_bytes", "Requests whose answers are owed"),
            ("answer_bytes", "Answers that are being made"),
            ("unsent_bytes", "Bytes that peers have not read"),
            ("partial_bytes", "Half-received frames"),
            ("in_flight_bytes_max", "The most that one connection is owed"),
        ):
            yield gauge(f"firearrow_{name}", says, _total([getattr(load, name) for load in loads], name))
        refused, cut = sum(load.refused for load in loads), sum(load.cut for load in loads)
        failed = max((server.failures for server in self.servers), default=0)
        yield counter("firearrow_connections_refused_total", "Connections beyond max_connections", refused)
        yield counter("firearrow_connections_cut_total", "Connections ended for a limit or bad data", cut)
        yield counter("firearrow_requests_failed_total", "Requests that failed by a bug", failed)


def _total(values: Sequence[float], name: str) -> float:
    return max(values, default=0.0) if name.endswith("_max") else sum(values)
