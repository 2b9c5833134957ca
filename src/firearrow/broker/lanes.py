"""Lanes: work that a handler cannot do at once, such as reads of the device, lookups and questions to clients.

A handler runs inside ``data_received`` and must not wait. Work that has to wait is a coroutine given to `Lanes.do` with
the kind of its wait; its result answers the request. Each kind has a lane of its own: a bounded number of places in
which jobs run, and a line of jobs that wait for a place. So a lookup does not wait for a sync, nor a read for a client.

In a line users take turns (addresses, where nobody has to name a user), then the connections of a user, then the jobs
of a connection in the order of their arrival. No connection takes the last free places, and no user more than three
quarters of the places, so a job of somebody else finds a place while jobs that last long are under way. A job that
computes for long calls `Lanes.give_way` after every piece, and waits for its connection's next turn.

A job that only reads takes from its request what it needs before it waits: the body of the request is let go of, and
does not count among the requests that keep everybody from being read.

When a connection ends, its jobs that only read are dropped while they wait, and a job that gives way is dropped there.
Questions to clients, which wait for the longest, are dropped wherever they are.
Changes are not dropped (`NEVER_DROPPED`), nor are the reads that a change begins with: a producer that commits one-way
and closes its connection waits for no answer, and its commit counts.

Invariant: the request of every accepted job is answered once, also when the broker stops.
"""

import asyncio
import inspect
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, TypeVar

from msgspec import Struct

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Answer, Call, Later, Peer
from firearrow.runtime.turn import FairLine, Share, breathe, counted, soon
from firearrow.telemetry.damped import DampedEvents


class WaitKind(Enum):
    """The kind of wait of a job."""

    DEVICE = "device"
    """Reads of the device: cold pulls, messages by their place or time."""
    NAMED = "named"
    """Reads of the device that a change begins with: of the stored message that the change names. Never dropped."""
    INDEX = "index"
    """Lookups by key: many small reads, and much to compute."""
    SYNC = "sync"
    """Syncs of the log: send-backs. Never dropped."""
    CHANGE = "change"
    """Syncs of tables, deletions and name servers: changes of topics, groups and offsets. Never dropped."""
    TURNS = "turns"
    """Further turns of the loop: answers about many queues, topics or groups."""
    CLIENT = "client"
    """Answers of clients that a question is passed on to."""


PLACES: Final = {
    WaitKind.DEVICE: 32,
    WaitKind.NAMED: 32,
    WaitKind.INDEX: 2,
    WaitKind.SYNC: 512,
    WaitKind.CHANGE: 64,
    WaitKind.TURNS: 4,
    WaitKind.CLIENT: 64,
}
"""The number of jobs of a lane that run at a time. Jobs of INDEX compute: their number bounds their share of a turn."""
NEVER_DROPPED: Final = frozenset({WaitKind.NAMED, WaitKind.SYNC, WaitKind.CHANGE})
"""Lanes whose jobs are carried out after their connection has ended."""
MOST_OF_CONNECTION: Final = 4096
"""Most jobs of one connection that wait in a lane, `WaitKind.NAMED` and `WaitKind.CLIENT` excepted; further requests
are refused as by Apache's full thread pools."""
MOST_QUESTIONS: Final = 32
"""Most questions to clients of one connection that wait: each may last as long as a client is silent."""
MOST_QUESTIONS_OF_OWNER: Final = 64
"""Most questions to clients of one user or address that wait."""
MOST_CHANGES: Final = 20_000
"""Most changes that wait in a lane, of all connections: the end of a connection does not drop them."""
DROPPED_AT_ONCE: Final = 256
"""Jobs of an ended connection that are dropped in one turn of the loop."""

MOST_OF_OWNER: Final = MOST_CHANGES * 3 // 4
"""Most changes of one user or address that wait in a lane, also of connections that have ended."""

_MOST_OF_CONNECTION: Final = {
    WaitKind.NAMED: MOST_OF_OWNER,  # ends of transactions come one-way: a producer does not hear that one was refused
    WaitKind.CLIENT: MOST_QUESTIONS,
}
_MOST_OF_OWNER: Final = {**dict.fromkeys(NEVER_DROPPED, MOST_OF_OWNER), WaitKind.CLIENT: MOST_QUESTIONS_OF_OWNER}

FULL: Final = "[OVERLOAD]too many requests of this connection wait; ask later"
FULL_OF_OWNER: Final = "[OVERLOAD]too many requests of this user or address wait; ask later"
FULL_OF_ALL: Final = "[OVERLOAD]too many changes of all clients together wait; ask later"

REFUSED_ONEWAY: Final = (
    "%d one-way requests were refused, the last of %s, and their senders do not hear of it: %d requests wait in lane "
    "%s. The broker asks producers later about transactions whose end was refused. Let producers end fewer "
    "transactions at once, or give the broker a faster disk"
)

log = logging.getLogger(__name__)

Job = Coroutine[Any, Any, Answer | Later | None]
K = TypeVar("K")


class _AskerGone(Exception):
    """Ends a job whose connection has ended."""


class _Job(Struct, eq=False):
    """A job in a lane."""

    later: Later
    job: Job
    peer: Peer
    owner: object
    paused: asyncio.Future[None] | None = None
    """The future that a job waits for after it gave way; None: the job has not begun."""
    is_dropped: bool = False
    """Whether the job was cancelled because its connection has ended."""

    @property
    def waits_again(self) -> bool:
        """Whether the job gave way and waits for a place again."""
        return self.paused is not None and not self.paused.done()


class Lane:
    """The jobs of one kind of wait: the waiting jobs in order, and the number of running ones."""

    def __init__(
        self,
        places: int,
        *,
        is_dropped: bool = True,
        most_of_connection: int = MOST_OF_CONNECTION,
        most_waiting_of_owner: float = math.inf,
    ) -> None:
        self._places = places
        self._most_of_owner = max(places * 3 // 4, 1)
        self._is_dropped = is_dropped
        """Whether jobs are dropped with their connection; if not, they are bounded in all, too."""
        self._most_of_connection = most_of_connection
        self._most_waiting_of_owner = most_waiting_of_owner
        self._line: FairLine[Peer, _Job] = FairLine()
        self.share: Final = Share.LOOKUP if is_dropped else Share.CHANGE
        self._running = 0
        self._of_peer: Counter[Peer] = Counter()
        self._of_owner: Counter[object] = Counter()
        self.refused = 0
        """Requests that were refused because too many jobs waited."""
        self.refused_oneway = 0
        """One-way requests among the refused ones: their senders do not hear of the refusal."""

    def __len__(self) -> int:
        return len(self._line)

    @property
    def running(self) -> int:
        """The number of jobs that have a place."""
        return self._running

    def runs(self, peer: Peer) -> bool:
        """Whether a job of a peer has a place."""
        return self._of_peer[peer] > 0

    def refusal(self, peer: Peer, owner: object) -> str | None:
        """Return why no further job of a peer may wait, and count that its request is refused; None if it may."""
        why = self._refusal(peer, self._line.owner_of(peer, owner))
        self.refused += why is not None
        return why

    def _refusal(self, peer: Peer, owner: object) -> str | None:
        line = self._line
        if line.waiting_at(peer) >= self._most_of_connection:
            return FULL
        if line.waiting_of(owner) >= self._most_waiting_of_owner:
            return FULL_OF_OWNER
        return FULL_OF_ALL if not self._is_dropped and len(line) >= MOST_CHANGES else None

    def add(self, work: _Job, *, is_begun: bool = False) -> None:
        """Let a job wait for its turn: behind the others of its connection, or before them if it has begun."""
        self._line.add(work.owner, work.peer, work, is_first=is_begun)

    def take(self) -> _Job | None:
        """Return the job whose turn it is, which has a place from now on; None when none may have one."""
        free = self._places - self._running
        of_owner, of_peer, most = self._of_owner, self._of_peer, self._most_of_owner
        if free <= 0:
            return None
        found = self._line.next(lambda owner: of_owner[owner] < most, lambda peer: of_peer[peer] < free)
        return None if found is None else self._start(*found)

    def _start(self, owner: object, peer: Peer) -> _Job:
        work = self._line.take(owner, peer)
        work.owner = owner
        self._running += 1
        self._of_peer[peer] += 1
        self._of_owner[owner] += 1
        return work

    def leave(self, work: _Job) -> None:
        """Free the place of a job."""
        self._running -= 1
        _count_down(self._of_peer, work.peer)
        _count_down(self._of_owner, work.owner)

    def drop(self, peer: Peer) -> deque[_Job]:
        """Remove and return the waiting jobs of a connection that has ended; none where jobs are not dropped."""
        return self._line.drop(peer) if self._is_dropped else deque()

    def clear(self) -> list[_Job]:
        """Remove and return all waiting jobs."""
        return self._line.clear()


class Lanes:
    """The lanes of one broker."""

    def __init__(self) -> None:
        self._lanes: Final = {
            wait: Lane(
                places,
                is_dropped=wait not in NEVER_DROPPED,
                most_of_connection=_MOST_OF_CONNECTION.get(wait, MOST_OF_CONNECTION),
                most_waiting_of_owner=_MOST_OF_OWNER.get(wait, math.inf),
            )
            for wait, places in PLACES.items()
        }
        self._tasks: asyncio.TaskGroup | None = None
        self._at_work: dict[asyncio.Task[Any] | None, tuple[Lane, _Job]] = {}
        self._is_closed = False
        self._oneway = DampedEvents()
        self.user_of: Callable[[Peer], str | None] = lambda _peer: None
        """Returns the user that a connection has proved to be; None: the address takes turns instead."""

    def lane(self, wait: WaitKind) -> Lane:
        """Return the lane of a kind of wait: for reading how busy it is."""
        return self._lanes[wait]

    def waiting(self, wait: WaitKind) -> int:
        """Return the number of jobs that wait for a place in a lane."""
        return len(self._lanes[wait])

    def check(self, peer: Peer, wait: WaitKind) -> None:
        """Raise ``Refused`` when no further job of a peer may wait: called before work begins that a job completes."""
        why = self._lanes[wait].refusal(peer, self._owner(peer))
        if why is not None:
            raise Refused(ResponseCode.SYSTEM_BUSY, why)

    def do(self, call: Call, wait: WaitKind, job: Job) -> Later:
        """Answer ``call`` with the result of the coroutine; a result of type `Later` is answered elsewhere.

        Of a request that changes nothing the coroutine has only fields: header and body are let go of. A coroutine
        that needs more of such a request is given to `add`.
        """
        later = call.later()
        if wait not in NEVER_DROPPED:
            later.let_body_go()
        self.add(later, wait, job)
        return later

    def add(self, later: Later, wait: WaitKind, job: Job) -> None:
        """Let a job wait for its turn; refuse its request when too many wait, or when the broker is stopping."""
        lane, peer, owner = self._lanes[wait], later.peer, self._owner(later.peer)
        if self._is_closed:
            _refuse(later, job)
            return
        why = lane.refusal(peer, owner)
        if why is not None:
            job.close()
            later.refuse(ResponseCode.SYSTEM_BUSY, why)
            if later.is_oneway:
                self._tell_of_oneway(lane, wait, owner, why)
        else:
            lane.add(_Job(later, job, peer, owner))
            self._fill(lane)

    def _tell_of_oneway(self, lane: Lane, wait: WaitKind, owner: str, why: str) -> None:
        """Count a refused request whose sender hears nothing, and log it for the operator."""
        lane.refused_oneway += 1
        times = self._oneway.count(asyncio.get_running_loop().time())
        if times:
            extra = {"owner": owner, "lane": wait.value, "reason": why, "times": times}
            log.warning(REFUSED_ONEWAY, times, owner, len(lane), wait.value, extra=extra)

    def _owner(self, peer: Peer) -> str:
        """Return who takes turns: the user of a connection, else its address."""
        return self.user_of(peer) or peer.address.host

    async def give_way(self) -> None:
        """Let jobs of other connections run; called by a job between two pieces of its work, and never under a lock.

        Ends the job when nobody waits for its answer any more.
        """
        lane, work = self._at_work[asyncio.current_task()]
        if not work.later.is_owed:
            raise _AskerGone
        if not len(lane):
            await breathe()
            return
        work.paused = asyncio.get_running_loop().create_future()
        lane.leave(work)
        lane.add(work, is_begun=True)
        self._fill(lane)
        if work.paused.done():  # it is this job's turn again: awaiting the future would not let the loop run
            await breathe()
        else:
            await work.paused
        if not work.later.is_owed:
            raise _AskerGone

    def disconnected(self, peer: Peer) -> None:
        """Drop the waiting jobs of a connection that has ended, changes excepted, and its questions to clients."""
        self._end_questions(peer)
        for lane in self._lanes.values():
            dropped = lane.drop(peer)
            if dropped:
                self._discard(lane, dropped)

    def _end_questions(self, peer: Peer) -> None:
        """Cancel the questions to clients that a connection has asked and that have a place."""
        lane = self._lanes[WaitKind.CLIENT]
        if not lane.runs(peer):
            return
        for task, (where, work) in list(self._at_work.items()):
            if task is None or where is not lane or work.peer is not peer or work.waits_again:
                continue
            if inspect.getcoroutinestate(work.job) == inspect.CORO_CREATED:  # its task would not begin if cancelled
                work.job.close()
                work.job = _end()
            else:
                work.is_dropped = True
                task.cancel()

    def _discard(self, lane: Lane, dropped: deque[_Job]) -> None:
        """Drop jobs, a bounded number in every turn of the loop."""
        for _ in range(min(len(dropped), DROPPED_AT_ONCE)):
            work = dropped.popleft()
            if work.paused is not None:  # it ends itself, in a place of its own: a job that has begun is never closed
                lane.add(work, is_begun=True)
            else:
                _refuse(work.later, work.job)
        if dropped:
            soon(Share.CONNECTION, self._discard, lane, dropped)
        self._fill(lane)

    # ---- running

    async def run(self) -> None:
        """Run the jobs until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for lane in self._lanes.values():
                    self._fill(lane)
                await asyncio.get_running_loop().create_future()
        finally:
            self._is_closed = True
            left = [work for lane in self._lanes.values() for work in lane.clear()]
            left += [work for _, work in self._at_work.values()]  # tasks that were cancelled before they began
            for work in left:
                _refuse(work.later, work.job)

    def _fill(self, lane: Lane) -> None:
        """Start jobs while there are places for them."""
        if self._tasks is None or self._is_closed:
            return
        while (work := lane.take()) is not None:
            if work.paused is not None:
                work.paused.set_result(None)
            else:
                task = self._tasks.create_task(counted(lane.share, self._carry_out(lane, work), work.job))
                self._at_work[task] = lane, work

    async def _carry_out(self, lane: Lane, work: _Job) -> None:
        later = work.later
        try:
            answer = await work.job
        except asyncio.CancelledError as cancelled:
            self._take_cancellation(work, cancelled)
        except _AskerGone:
            later.refuse(ResponseCode.SYSTEM_ERROR, "the connection has ended")
        except Exception as error:  # noqa: BLE001 - an error must not end the lanes
            later.fail(error)
        else:
            if not isinstance(answer, Later):
                later.answer(answer)
        finally:
            self._at_work.pop(asyncio.current_task(), None)
            lane.leave(work)
            self._fill(lane)

    def _take_cancellation(self, work: _Job, cancelled: asyncio.CancelledError) -> None:
        """Answer for a job that was cancelled; raise the cancellation again if the broker is stopping."""
        if _cancellations() > work.is_dropped:
            self._is_closed = True
            work.later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
            raise cancelled
        if work.is_dropped:
            work.later.refuse(ResponseCode.SYSTEM_ERROR, "the connection has ended")
        else:
            failure = RuntimeError("something that the request waited for was cancelled")
            failure.__cause__ = cancelled
            work.later.fail(failure)


def _cancellations() -> int:
    """Return how often this task was cancelled; a cancelled future that it waits for does not count."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _end() -> None:
    """Do nothing in the place of a job whose connection has ended before the job has begun."""
    raise _AskerGone


def _count_down(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _refuse(later: Later, job: Job) -> None:
    """Close a job that has not begun, and refuse its request; a no-op for a connection that has ended."""
    job.close()
    later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
