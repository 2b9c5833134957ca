"""The stream in one direction of a simulated connection (its ends are ``endpoint``'s business).

What a stream does, as TCP would::

    write() -> outgoing buffer -> in flight (at most the window) -> inbox of the peer -> data_received()
               pause_writing                withheld while the       grows while
               above the high mark          link is cut              reading is paused

* Bytes keep their order and are never lost while the connection lives. They arrive in arbitrary pieces.
* The window is given back when the peer's protocol has taken the bytes, and only if the way back is open; a
  peer that stops reading therefore stops the writer.
* While the link is cut, packets wait; they go on after it heals, or the sender gives up after the
  retransmission timeout and sees ``TimeoutError``.
* ``close`` flushes and then ends the stream; an endpoint that ends with unread bytes resets its peer instead.
* Bytes for an endpoint that is gone are answered with a reset, unless its machine is off: then nothing comes
  back, and the other end stays half-open until it sends into the rebooted machine or gives up.

Packets travel outside every process, so that a crash of the sender does not stop what it has already sent.
"""

import asyncio
import contextvars
import enum
import random
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.trace import Trace

_DRIP_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """The behaviour of the cables without faults."""

    latency_min_s: float = 0.0001
    latency_mean_s: float = 0.001
    window_bytes: int = 128 * 1024
    split_chance: float = 0.25
    drip_chance: float = 0.01
    coalesce_chance: float = 0.5
    retransmission_timeout_s: float = 900.0
    reset_on_crash_chance: float = 0.3
    connect_timeout_s: float = 3.0
    trace_contents: bool = True  # off for TLS, whose bytes differ in every run


class Signal(enum.Enum):
    """A packet without bytes."""

    FIN = "fin"
    RST = "rst"


class Cables(Protocol):
    """The network of a stream, as the stream needs it."""

    loop: SimLoop
    rng: random.Random
    trace: Trace
    profile: LinkProfile

    def reachable(self, source: str, target: str) -> bool:
        """Whether packets get through."""
        ...

    def throttle_of(self, node: str) -> float:
        """Seconds a byte takes at the receiving node."""
        ...


class End(Protocol):
    """An end of a stream, as the stream needs it."""

    node: str
    gone: bool

    def arrived(self, packet: bytearray | Signal) -> None:
        """A packet came off the cable."""
        ...

    def broken(self, error: Exception) -> None:
        """The connection ended under this end's feet."""
        ...

    def drained(self) -> None:
        """Some of the outgoing bytes went out."""
        ...


OUTSIDE: Final = contextvars.Context()  # of no process: packets travel in it


class Stream:
    """One direction: what left ``source`` and has not been taken by ``target``'s protocol."""

    __slots__ = (
        "_cables",
        "_give_up",
        "_last_arrival",
        "_latest",
        "_latest_left",
        "outgoing",
        "outstanding",
        "owed",
        "source",
        "target",
        "withheld",
    )  # fmt: skip

    def __init__(self, cables: Cables, source: End, target: End) -> None:
        self._cables = cables
        self.source = source
        self.target = target
        self.outgoing = bytearray()
        self.outstanding = 0
        self.owed = 0  # taken by the target while the way back was cut
        self.withheld: deque[bytearray | Signal] = deque()
        self._last_arrival = 0.0
        self._latest: bytearray | None = None  # the packet that left last, while more may still join it
        self._latest_left = -1.0
        self._give_up: asyncio.TimerHandle | None = None

    def send(self, data: bytes) -> None:
        """Queue bytes and put on the cable what the window allows."""
        room = self._cables.profile.window_bytes - self.outstanding
        if not self.outgoing and len(data) <= room:
            self._chop(data)
        else:
            self.outgoing += data
            self.pump()

    def pump(self) -> None:
        """Put on the cable what the window allows."""
        while self.outgoing and (room := self._cables.profile.window_bytes - self.outstanding) > 0:
            data = bytes(self.outgoing[:room])
            del self.outgoing[:room]
            self._chop(data)

    def _chop(self, data: bytes) -> None:
        self.outstanding += len(data)
        profile, rng = self._cables.profile, self._cables.rng
        dice = rng.random()
        if dice < profile.drip_chance and len(data) <= _DRIP_BYTES_MAX:
            self._put_all([data[position : position + 1] for position in range(len(data))])
        elif dice < profile.drip_chance + profile.split_chance and len(data) > 1:
            cut = rng.randrange(1, len(data))
            self._put_all([data[:cut], data[cut:]])
        elif dice > 1 - profile.coalesce_chance and self._may_join():
            assert self._latest is not None
            self._latest += data
        else:
            self._put_all([data])

    def _may_join(self) -> bool:
        return self._latest is not None and self._latest_left == self._cables.loop.now

    def _put_all(self, pieces: list[bytes]) -> None:
        packet = bytearray()
        for piece in pieces:
            packet = bytearray(piece)
            self._put(packet)
        self._latest, self._latest_left = packet, self._cables.loop.now

    def signal(self, signal: Signal) -> None:
        """Send an ending after everything already on the cable."""
        self._latest = None
        self._put(signal)

    def _put(self, packet: bytearray | Signal) -> None:
        cables = self._cables
        loop, profile = cables.loop, cables.profile
        delay = profile.latency_min_s + cables.rng.expovariate(1.0) * profile.latency_mean_s
        arrival = max(self._last_arrival, loop.now + delay)
        if (throttle := cables.throttle_of(self.target.node)) and isinstance(packet, bytearray):
            arrival += len(packet) * throttle
        self._last_arrival = arrival
        loop.call_at(arrival, self._arrive, packet, context=OUTSIDE)

    def _arrive(self, packet: bytearray | Signal) -> None:
        if packet is self._latest:
            self._latest = None
        if self.withheld or not self._cables.reachable(self.source.node, self.target.node):
            self._withhold(packet)
        else:
            self.target.arrived(packet)

    def _withhold(self, packet: bytearray | Signal) -> None:
        self.withheld.append(packet)
        if self._give_up is None and not self.source.gone:
            after = self._cables.profile.retransmission_timeout_s
            self._give_up = self._cables.loop.call_later(after, self._expire, context=OUTSIDE)

    def _expire(self) -> None:
        self._give_up = None
        self.source.broken(TimeoutError(110, "no acknowledgement within the retransmission timeout"))

    def healed(self) -> None:
        """Go on after the link has healed: packets that waited travel again, owed window comes back."""
        if self.withheld:
            profile = self._cables.profile
            delay = profile.latency_min_s + self._cables.rng.expovariate(1.0) * profile.latency_mean_s
            self._cables.loop.call_later(delay, self._release, context=OUTSIDE)
        if self.owed and self._cables.reachable(self.target.node, self.source.node):
            owed, self.owed = self.owed, 0
            self._credit(owed)

    def _release(self) -> None:
        if not self._cables.reachable(self.source.node, self.target.node):
            return
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        packets, self.withheld = self.withheld, deque()
        for packet in packets:
            self.target.arrived(packet)

    def taken(self, count: int) -> None:
        """The target's protocol took bytes: give the window back if the way back is open."""
        if self._cables.reachable(self.target.node, self.source.node):
            self._credit(count)
        else:
            self.owed += count

    def _credit(self, count: int) -> None:
        self.outstanding -= count
        if self.outgoing:
            self.pump()
            self.source.drained()
