"""Failovers of a real group under load, one after another: what was acknowledged is found again, and after how long."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from campaigns.broker.promises import audit, unkept
from campaigns.failover.acts import Acts
from campaigns.failover.clients import OURS, Clients, order_breaks
from campaigns.failover.faults import NO_ELECTION, Fault, inflict, mend
from campaigns.failover.group import Group, View
from judges.judge import fresh
from judges.producers import Produced
from judges.reports import ReceiveReport
from judges.server_process import answers, wait_for
from judges.servers import make_topic
from judges.wire import GET_ROUTE

QUEUES = 4
REPLICAS = 3
BEFORE = 30
AFTER = 50
CUT_S = 5.0
ELECTION_S = 90.0
"""The longest wait for an election."""
REJOIN_S = 120.0
LOOK_S = 0.2
ROUTE_S = 45.0
"""Longer than the Go client takes to ask for routes again."""


class Outcome(Struct):
    """The outcome of one failover."""

    system: str
    fault: Fault
    stock: list[str]
    acked: int
    """Messages acknowledged to any client since the failover before."""
    lost: int
    """Of those, messages that a consumer did not get, or that lie elsewhere than the acknowledgement said."""
    out_of_order: int
    gap_s: float | None
    """The longest time without an acknowledgement to our producer; after the end of a fault without an election.

    None when no acknowledgement came any more until the end of the round.
    """
    stock_gap_s: dict[str, float | None]
    """The same for the stock clients, which ask for routes at intervals."""
    epoch: int
    load: float
    """The machine's load average of the minute before."""
    gone: int = 0
    """Of those lost, messages that a consumer who began at the first message did not get in the end either."""
    stuck: str = ""
    """The parts that did not recover by themselves: the fault had to be mended first, or the group was not whole again
    after it."""
    acts: dict[str, int] = {}
    """In the last outcome of a round: acts other than plain sends in that round, by kind and answer."""


class _Span(Struct):
    """One failover while its round goes on."""

    fault: Fault
    epoch: int
    load: float
    begin: float
    end: float
    counts: dict[str, int]
    """Messages acknowledged until its end."""
    stuck: str = ""


class Round:
    """A running group with its clients, which stay through all failovers of the round."""

    def __init__(self, group: Group, clients: Clients) -> None:
        self._group = group
        self._clients = clients
        self._quick = [sender.name for sender in clients.senders if sender.name != "go"]
        self._spans: list[_Span] = []

    def failover(self, fault: Fault) -> bool:
        """Let a fault happen to the master, watch the group, and mend it; return whether it is whole again."""
        before = self._settle()
        begin = time.monotonic()
        inflict(self._group, fault, before.master)
        load = round(os.getloadavg()[0], 1)
        if fault in NO_ELECTION:
            self._clients.watch(lambda: time.monotonic() > begin + CUT_S, "the end of the cut", 2 * CUT_S)
            begin = time.monotonic()
            mend(self._group, fault, before.master)
            stuck = _missed(self._go_on)
        else:
            stuck = _missed(lambda: self._fail_over(before.epoch))
            mend(self._group, fault, before.master)
        end = time.monotonic()
        unhealed = _missed(self._settle)
        epoch = (self._group.view() or before).epoch
        told = "; ".join(filter(None, (stuck, unhealed and f"then {unhealed}")))
        self._spans.append(_Span(fault, epoch, load, begin, end, self._clients.counts(), told))
        return not unhealed

    def prepare(self, acts: Acts) -> None:
        """Let acts do what the last failover must not take from them."""
        acts.prepare(self._settle())

    def _fail_over(self, epoch: int) -> None:
        self._view(lambda view: view.epoch > epoch, "an election", ELECTION_S)
        self._go_on()

    def _go_on(self) -> None:
        self._clients.advance(AFTER, ELECTION_S, wait_for=self._quick)

    def _settle(self) -> View:
        """Wait until all brokers are in sync, and some messages more are acknowledged."""
        self._view(lambda view: len(view.in_sync) == REPLICAS, "all brokers in sync", REJOIN_S)
        self._clients.advance(BEFORE, ELECTION_S, wait_for=self._quick)
        return self._view(lambda view: len(view.in_sync) == REPLICAS, "all brokers in sync", REJOIN_S)

    def _view(self, condition: Callable[[View], bool], what: str, seconds: float) -> View:
        found: list[View] = []
        next_s = 0.0

        def is_there() -> bool:
            nonlocal next_s
            if time.monotonic() < next_s:
                return False
            next_s = time.monotonic() + LOOK_S
            view = self._group.view()
            if view is not None and condition(view):
                found.append(view)
            return bool(found)

        try:
            self._clients.watch(is_there, what, seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the group: {self._group.view()}\n{self._group.logs()}") from None
        return found[0]

    def finish(self) -> tuple[list[Outcome], list[str]]:
        """End the round; return what each failover did, and every complaint about the whole."""
        senders = self._clients.senders
        broken = [f"{span.fault}: {span.stuck}" for span in self._spans if span.stuck]
        if silent := _missed(lambda: self._clients.advance(1, ROUTE_S, wait_for=[sender.name for sender in senders])):
            broken.append(silent)
        produced, received = self._clients.finish()
        everything = audit(produced, received.values())
        for name, report in received.items():
            findings = audit(produced, [report])
            broken += [f"{name}: {text}" for text in (*findings.lost, *findings.misplaced)]
        broken += [text for sent in produced for text in order_breaks(sent)]
        broken += [*everything.rewritten, *everything.skipped]
        named = {sender.name: sent for sender, sent in zip(senders, produced, strict=True)}
        self._spans[-1].counts = {name: len(sent.acks) for name, sent in named.items()}
        return self._outcomes(named, received), broken

    def _outcomes(self, produced: Mapping[str, Produced], received: Mapping[str, ReceiveReport]) -> list[Outcome]:
        again = self._clients.read_again() if unkept([*produced.values()], received.values()) else None
        before = dict.fromkeys(produced, 0)
        outcomes = []
        for span in self._spans:
            parts = [replace(sent, acks=sent.acks[before[name] : span.counts[name]]) for name, sent in produced.items()]
            before = span.counts
            gaps = {sender.name: _rounded(sender.gap_s(span.begin, span.end)) for sender in self._clients.senders}
            outcomes.append(
                Outcome(
                    self._group.system,
                    span.fault,
                    list(received),
                    acked=sum(len(part.acks) for part in parts),
                    lost=len(unkept(parts, received.values())),
                    gone=0 if again is None else len(audit(parts, [again]).lost),
                    out_of_order=sum(len(order_breaks(part)) for part in parts),
                    gap_s=gaps.pop(OURS),
                    stock_gap_s=gaps,
                    epoch=span.epoch,
                    load=span.load,
                    stuck=span.stuck,
                )
            )
        return outcomes


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _missed(wait: Callable[[], object]) -> str:
    """Wait for something; return what did not come, in short, and print the whole story of it."""
    try:
        wait()
    except TimeoutError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201
        return str(error).partition(";")[0]
    return ""


def run_round(group: Group, faults: Sequence[Fault], stock: Sequence[str]) -> tuple[list[Outcome], list[str]]:
    """Let faults happen to a running group, one after another, until it is not whole again after one.

    Return outcomes and complaints.
    """
    view = group.view()
    assert view is not None, "the group has no master"
    topic = fresh("failovers")
    make_topic(group.address(view.master), topic, QUEUES)
    for names in group.name_servers.split(";"):
        wait_for(lambda at=names: answers(at, GET_ROUTE, {"topic": topic}) is not None, f"a route of {topic}")  # type: ignore[misc]
    with Clients(group, topic, stock) as clients, Acts(group) as acts:
        clients.advance(1, ROUTE_S, wait_for=[sender.name for sender in clients.senders])
        running = Round(group, clients)
        for number, fault in enumerate(faults, 1):
            if number == len(faults):
                running.prepare(acts)
            if not running.failover(fault):
                break
        outcomes, broken = running.finish()
        outcomes[-1].acts, wrong = acts.finish()
        return outcomes, broken + wrong
