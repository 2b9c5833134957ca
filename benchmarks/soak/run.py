"""The run itself: sides started, turns, deaths, steady hours, and the figures of all of them."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.soak.figures import LATE_MS, Figures, Latency, Sample, Slice, Turn
from benchmarks.soak.load import GROUPS, QUEUES, Load, count_exceptions
from benchmarks.soak.plan import Plan
from benchmarks.soak.records import SLICE_NS, Delays
from benchmarks.soak.sides import APACHE, OURS, Side, started
from benchmarks.soak.trouble import Event, deaths, upsets
from judges import fresh

TICK_S = 1.0
SAY_S = 10.0
SETTLE_S = 5.0
Say = Callable[[str], None]


class Soak:
    """One run; `figures` grows as it goes."""

    def __init__(self, plan: Plan, minutes: float, rate: int, output: Path, say: Say) -> None:
        self._plan = plan
        self._rate = rate
        self._output = output
        self._say = say
        self._began = time.monotonic()
        self.figures = Figures(minutes, rate, QUEUES)

    def run(self) -> Figures:
        """All parts."""
        plan = self._plan
        with ExitStack() as stack:
            ours = stack.enter_context(started(OURS))
            ours.check_loop()
            stack.callback(self._look_into, ours)
            sides = [ours, *([stack.enter_context(started(APACHE))] if plan.rounds_before else [])]
            for side in sides:
                side.pause()
            for side in sides[1:]:
                self._say(f"{side.name}: warming up for {plan.warm_up_s:.0f} s")
                self._turn(side, plan.warm_up_s, 0.0)
            self._rounds(plan.rounds_before, sides)
            ours.resume()
            self._soak(ours)
            ours.pause()
            self._rounds(plan.rounds_after, sides)
        return self.figures

    def _look_into(self, side: Side) -> None:
        for server, log in side.logs().items():
            self.figures.exceptions[server] = count_exceptions(log)
            shutil.copy(log, self._output / f"{server}.log")

    # ---- turns

    def _rounds(self, rounds: int, sides: list[Side]) -> None:
        for number in range(rounds):
            for side in sides if number % 2 else reversed(sides):
                turn = self._turn(side, self._plan.turn_s, self._plan.lead_s)
                self.figures.turns.append(turn)
                self._say(
                    f"{side.name}: delivery p50 {turn.whole.p50_ms:.2f} ms, p99 {turn.whole.p99_ms:.2f} ms "
                    f"(stock Java {turn.java.p99_ms:.2f}, ours {turn.ours.p99_ms:.2f}), {turn.whole.late:.2%} later "
                    f"than {LATE_MS:.0f} ms, {turn.rate:,.0f} messages/s"
                )

    def _turn(self, side: Side, seconds: float, lead_s: float) -> Turn:
        side.resume()
        try:
            with Load(side.broker, fresh("turn"), self._rate) as load:
                load.wait_running()
                time.sleep(lead_s)
                load.look()
                from_ns, before = time.monotonic_ns(), load.acknowledged.total
                time.sleep(seconds)
                to_ns = time.monotonic_ns()
                load.look()
                rate = (load.acknowledged.total - before) / ((to_ns - from_ns) / 1e9)
                lost = sum(load.finish().values())
                self._note_exceptions(load)
                return Turn(
                    side.name,
                    whole=_latency(load.between(from_ns, to_ns)),
                    java=_latency(load.between(from_ns, to_ns, "java")),
                    ours=_latency(load.between(from_ns, to_ns, "ours")),
                    lost=lost,
                    rate=rate,
                )
        finally:
            side.pause()

    def _note_exceptions(self, load: Load) -> None:
        for member, count in load.exceptions().items():
            self.figures.exceptions[member] = self.figures.exceptions.get(member, 0) + count
            load.keep_logs(self._output)

    # ---- deaths and steady hours

    def _soak(self, side: Side) -> None:
        with Load(side.broker, fresh("soak"), self._rate) as load:
            load.wait_running()
            began_ns = time.monotonic_ns()
            self._part("deaths", self._plan.deaths_s, side, load, deaths(side.broker, load))
            self._settle(side, load)
            steady_ns, before = time.monotonic_ns(), load.acknowledged.total
            self._part("steady", self._plan.steady_s, side, load, upsets(load))
            load.look()
            ended_ns = time.monotonic_ns()
            figures = self.figures
            figures.steady_rate = (load.acknowledged.total - before) / ((ended_ns - steady_ns) / 1e9)
            figures.lost = load.finish()
            figures.acknowledged, figures.failed_sends = load.acknowledged.distinct, load.failed
            figures.delivered = {group: one.numbers.distinct for group, one in load.delivered.items()}
            figures.repeated = {
                group: one.numbers.total - one.numbers.distinct for group, one in load.delivered.items()
            }
            figures.steady = _latency(load.between(steady_ns, ended_ns))
            figures.slices = list(self._slices(load, began_ns))
            self._note_exceptions(load)
            load.keep_logs(self._output)

    def _settle(self, side: Side, load: Load) -> None:
        """A moment for everybody to find the broker again after its last death."""
        self._part("settling", SETTLE_S, side, load, iter(()))

    def _part(self, name: str, seconds: float, side: Side, load: Load, events: Iterator[Event]) -> None:
        until = time.monotonic() + seconds
        event_at, given = time.monotonic() + self._plan.pause_s, load.given()
        say_at = time.monotonic()
        while (now := time.monotonic()) < until:
            # What is to die next has first come back to work.
            if now >= event_at and load.is_flowing(given):
                self._happen(events)
                event_at, given = time.monotonic() + self._plan.pause_s, load.given()
            load.look()
            self._sample(name, side, load)
            if now >= say_at:
                say_at = now + SAY_S
                self._tell(name, load)
            time.sleep(TICK_S)

    def _happen(self, events: Iterator[Event]) -> None:
        event = next(events, None)
        if event is not None:
            what, act = event
            self.figures.events.append((time.monotonic() - self._began, what))
            self._say(what)
            act()

    def _sample(self, part: str, side: Side, load: Load) -> None:
        self.figures.samples.append(
            Sample(
                time.monotonic() - self._began,
                part,
                side.broker.memory_bytes("RssAnon") / (1 << 20),
                side.descriptors(),
                load.acknowledged.total,
            )
        )

    def _tell(self, part: str, load: Load) -> None:
        now = time.monotonic_ns()
        delays = load.between(now - 6 * SLICE_NS, now)
        p50, p99 = delays.percentile(0.5), delays.percentile(0.99)
        last = self.figures.samples[-1]
        self._say(
            f"{last.at_s:6.0f} s, {part}: {last.acknowledged:,} acknowledged, {load.failed} failed, behind "
            f"{max(load.lost().values()):,}, delivery p50 {p50:.1f} ms p99 {p99:.1f} "
            f"ms, {last.anon_mib:.1f} MiB, {last.descriptors} descriptors"
        )

    def _slices(self, load: Load, began_ns: int) -> Iterator[Slice]:
        offset = began_ns / 1e9 - self._began
        for kind in ("java", "ours"):
            together: dict[int, Delays] = {}
            for group, shape in GROUPS.items():
                for place, delays in load.delivered[group].slices.items():
                    if shape.kind == kind:
                        together.setdefault(place, Delays()).merge(delays)
            for place, delays in sorted(together.items()):
                at = place * SLICE_NS / 1e9 - began_ns / 1e9 + offset
                yield Slice(at, kind, delays.percentile(0.5), delays.percentile(0.99))


def _latency(delays: Delays) -> Latency:
    return Latency(
        delays.count, delays.percentile(0.5), delays.percentile(0.99), delays.longest_ms, delays.over(LATE_MS)
    )
