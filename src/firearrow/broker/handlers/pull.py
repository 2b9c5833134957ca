"""Handing out messages. Java: ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``,
``PullRequestHoldService``.

A pull is served on the spot from memory. What lies on the device goes to `Errands`, off the loop. At the end of a queue
a pull that may wait is parked, and is served once more when a message comes or its time is over. Between finding
nothing and parking nothing else runs, and after a read that had to wait the end of the queue is compared again: no
arrival falls between the two. Arrivals of one turn of the loop are gathered, so a pull wakes once and takes all.
However many wake at once, a turn serves so many that others need not wait for long, and what several of them ask for
alike is read once. While others send, a pull that has more than one answer before it waits in `BacklogLine` for the
sends of its turn.

Of a pull that waits nothing is kept but what it takes to answer it, and nothing after its connection has ended. One
that wakes while its peer does not read what it was sent before is told to ask again, which costs few bytes.

Nothing above the confirm offset is seen here: a message has a place in its queue only from there on.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from firearrow.broker import pullanswer
from firearrow.broker.backlog import PULL_BYTES, BacklogLine
from firearrow.broker.clients import ClientTable
from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.longpoll import Parked, ParkedPulls, QueueKey
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pullchecks import SUBSCRIPTION_FLAG, Admitted, KnownTopics, PullChecks
from firearrow.broker.pullconfig import LARGE_PULL_BYTES, LARGE_PULL_MESSAGES, MAX_SUSPEND_MS, PullConfig
from firearrow.model.java_hash import tag_code
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.pull import LitePullMessage, Pull, PullMessage
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.store import pulling
from firearrow.store.placement import PlacedRun, Rows
from firearrow.store.propertyfields import TAGS_MARK, field
from firearrow.store.store import Store

COMMIT_FLAG: Final = 0x1
SUSPEND_FLAG: Final = 0x2
TAKEN_AT_ONCE: Final = 2000
"""Waiting pulls that wake, time out or go away in one turn of the loop."""
SLICE_BYTES: Final = 64 * PULL_BYTES
"""What pulls that wake at once are handed in one turn of the loop; each counts `PULL_BYTES` more."""
LIGHT_CHARACTERS: Final = 256
"""A pull that waits keeps its text up to this length: shorter is not worth a copy."""

Made = dict[tuple[str, int, pulling.Pull], pulling.Pulled | None]
"""What was read in a turn of the loop, by topic, queue and what was asked."""


class ConsumeCounts(Protocol):
    """Who counts what is handed out and what comes back."""

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """A pull found messages."""
        ...

    def missed(self) -> None:
        """A pull found none."""
        ...

    def sent_back(self, group: str, topic: str) -> None:
        """A consumer could not handle a message."""
        ...


class Uncounted:
    """Nobody counts."""

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Nothing."""

    def missed(self) -> None:
        """Nothing."""

    def sent_back(self, group: str, topic: str) -> None:
        """Nothing."""


class _Ticket(Struct, eq=False):
    """What it takes to serve a parked pull."""

    request: Pull
    later: Later
    peer: Peer


class PullHandlers:
    """Pulls, now or later."""

    def __init__(
        self,
        store: Store,
        topics: KnownTopics,
        groups: Groups,
        clients: ClientTable,
        offsets: OffsetTable,
        errands: Errands,
        *,
        config: PullConfig,
        memory_bytes: int,
        is_readable: Callable[[], bool],
        broker_ip: str,
        counts: ConsumeCounts,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._checks = PullChecks(topics, groups, clients, is_readable=is_readable, broker_ip=broker_ip)
        self._offsets = offsets
        self._errands = errands
        self._memory_bytes = memory_bytes
        self._backlogs: Final = BacklogLine(store.log, self._hand_out, config.max_transfer_bytes_beside_sends)
        self.configure(config)
        self._counts = counts
        self._on_commit = on_commit
        self.parked: Final[ParkedPulls[_Ticket]] = ParkedPulls()
        self._arrivals: dict[tuple[QueueKey, int], int] = {}  # queue and tag code, up to which offset: to be told
        self._is_waking = False
        self._woken: deque[Parked[_Ticket]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when it is due: the handle of a loop need not say

    def configure(self, config: PullConfig) -> None:
        """Follow other settings from now on; pulls that wait keep the time they were given."""
        self._config = config
        self._checks.allows_lite = config.lite_pull_message_enable
        self._hot_distance = self._memory_bytes * config.access_message_in_memory_max_ratio // 100
        self._backlogs.least = config.max_transfer_bytes_beside_sends

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(PullMessage, self.pull)
        handlers.on(LitePullMessage, self.pull)

    # ---- asking

    def pull(self, request: Pull, call: Call) -> Answer | Later:
        """Hand out messages of a queue, or wait for some."""
        admitted = self._checks.admit(request, call.peer)
        move = self._take_move(admitted)
        if move is not None:
            return move
        self._commit(admitted)  # before anything is awaited: what the group commits next must not be overtaken by it
        if self._backlogs.is_open and self._has_backlog(request):
            later = self._backlogs.add(admitted, call)
            later.promise(self._most_bytes(request))
            return later
        return self._hand_out(admitted, call)

    def _has_backlog(self, request: Pull) -> bool:
        """Whether there is more than one answer can hold."""
        most = self._config.max_transfer_count_on_message_in_memory
        return self._end_of(request) - request.queue_offset > most

    def _hand_out(self, admitted: Admitted, call: Call) -> Answer | Later:
        request = admitted.request
        hot = self._read_hot(admitted)
        if hot is None:
            later = call.later()
            later.promise(self._most_bytes(request))
            self._errands.add(later, self._pull_cold(admitted, call))
            return later
        self._note_pulled(admitted, hot.next_offset)
        code = pullanswer.code_of(hot, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            return self._park(admitted, call)
        return self._answer(admitted, hot, code)

    async def _pull_cold(self, admitted: Admitted, call: Call) -> Answer | Later:
        """The same, waiting for the device."""
        request = admitted.request
        pulled = await self._read(admitted)
        self._note_pulled(admitted, pulled.next_offset)
        code = pullanswer.code_of(pulled, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            if self._end_of(request) <= request.queue_offset:
                return self._park(admitted, call)
            pulled = await self._read(admitted)
            code = pullanswer.code_of(pulled, request.queue_offset)
        return self._answer(admitted, pulled, code)

    def _answer(self, admitted: Admitted, pulled: pulling.Pulled, code: int) -> Answer:
        if code == ResponseCode.SUCCESS:
            request = admitted.request
            self._counts.pulled(request.consumer_group, request.topic, pulled.messages, pulled.size)
        else:
            self._counts.missed()
        return pullanswer.answer(pulled, code, admitted.topic_flag, admitted.group_flag)

    def _take_move(self, admitted: Admitted) -> Answer | None:
        request = admitted.request
        offset = self._offsets.take_move(request.consumer_group, request.topic, request.queue_id)
        if offset is None:
            return None
        return pullanswer.moved(offset, *self._ends(request), admitted.topic_flag, admitted.group_flag)

    def _ends(self, request: Pull) -> tuple[int, int]:
        """Where the queue of a pull begins and ends."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return 0, 0
        return self._store.queues.min_offset(queue, self._store.log.min_offset), queue.max_offset

    def _note_pulled(self, admitted: Admitted, next_offset: int) -> None:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, next_offset)

    def _commit(self, admitted: Admitted) -> None:
        request = admitted.request
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        if request.sys_flag & COMMIT_FLAG and self._offsets.commit(group, topic, queue_id, request.commit_offset):
            self._on_commit()

    # ---- reading

    def _most_bytes(self, request: Pull) -> int:
        """How many bytes the answer may have, unless one message has more."""
        if request.large and request.max_msg_bytes is not None:
            return min(max(request.max_msg_bytes, 0), LARGE_PULL_BYTES)
        return self._config.max_transfer_bytes_on_message_in_memory

    def _hot(self, admitted: Admitted) -> pulling.Pull:
        config = self._config
        most, size = config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        return _limited(admitted, most, size)

    def _read_hot(self, admitted: Admitted) -> pulling.Pulled | None:
        request = admitted.request
        return self._store.read_hot(request.topic, request.queue_id, self._hot(admitted))

    def _read_once(self, admitted: Admitted, made: Made) -> pulling.Pulled | None:
        """The same, for several that may ask for the same in one turn of the loop."""
        request = admitted.request
        key = request.topic, request.queue_id, self._hot(admitted)
        if key not in made:
            pulled = self._store.read_hot(*key)
            made[key] = None if pulled is None else pulled._replace(buffers=(pullanswer.joined(pulled.buffers),))
        return made[key]

    async def _read(self, admitted: Admitted) -> pulling.Pulled:
        """Read with Apache's limits: others where messages lie so far from the log's end that they count as on disk."""
        request, config = admitted.request, self._config
        most, size = config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk
        far = _limited(admitted, most, size)
        return await self._store.read(
            request.topic, request.queue_id, self._hot(admitted), far=far, near_bytes=self._hot_distance
        )

    def _end_of(self, request: Pull) -> int:
        queue = self._store.queues.find(request.topic, request.queue_id)
        return 0 if queue is None else queue.max_offset

    # ---- waiting

    def _park(self, admitted: Admitted, call: Call) -> Later:
        request, config = admitted.request, self._config
        held_ms = request.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        until_ms = _now_ms() + min(max(held_ms, 0), MAX_SUSPEND_MS)
        key = (request.topic, request.queue_id)
        later, tags = call.hold(), admitted.tags
        if not later.is_owed:
            return later
        own_tags = len(tags) if tags and request.sys_flag & SUBSCRIPTION_FLAG else 0
        ticket = _Ticket(_light(request), later, call.peer)
        displaced = self.parked.park(
            key, request.queue_offset, tags, until_ms, ticket, owner=call.peer, own_tags=own_tags
        )
        self._wake(displaced)
        self._set_timer()
        return later

    def disconnected(self, peer: Peer) -> None:
        """A connection ended: what waited for it goes, some of it in every turn of the loop."""
        if not self.parked.leave(peer, TAKEN_AT_ONCE):
            asyncio.get_running_loop().call_soon(self.disconnected, peer)

    def arrived(self, rows: Rows) -> None:
        """Messages can be seen now: wake whoever waits for them, at the end of this turn of the loop."""
        queues = self.parked.queues
        if not queues or (type(rows) is PlacedRun and (rows.tail.topic, rows.tail.queue_id) not in queues):
            return
        for tail, _, _, queue_offset, _, _, properties in rows:
            key = (tail.topic, tail.queue_id)
            if key in queues:
                tag = field(properties, TAGS_MARK)
                code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
                self._arrivals[key, code] = queue_offset
        if self._arrivals and not self._is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake as many as a turn of the loop has time for, and the rest in the next."""
        arrivals, room = self._arrivals, TAKEN_AT_ONCE
        while arrivals and room > 0:
            key, code = next(iter(arrivals))
            woken = self.parked.arrived(key, arrivals[key, code], code, room)
            self._wake(woken)
            room -= len(woken)
            if room > 0:
                del arrivals[key, code]
                room -= 1
        self._is_waking = bool(arrivals)
        if arrivals:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def recall(self, group: str, topic: str, queue_id: int) -> None:
        """A group was sent elsewhere: let its waiting pulls hear of it now."""
        self._wake(self.parked.recall((topic, queue_id), lambda ticket: ticket.request.consumer_group == group))

    def _wake(self, woken: Iterable[Parked[_Ticket]]) -> None:
        if woken and not self._woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)
        self._woken.extend(woken)

    def _serve_woken(self) -> None:
        """Serve as many as a turn of the loop has time for, and the rest in the next."""
        woken, room = self._woken, SLICE_BYTES
        made: Made = {}
        while woken and room > 0:
            room -= PULL_BYTES + self._serve(woken.popleft(), made)
        if woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)

    def _serve(self, parked: Parked[_Ticket], made: Made) -> int:
        """Answer a pull that has waited, whatever there is; return how many bytes of messages it was handed."""
        later = parked.ticket.later
        if not later.is_owed:
            return 0
        try:
            answer = self._late_answer(parked, made)
        except Exception as error:  # noqa: BLE001 - the others that woke must not pay for it
            later.fail(error)
            return 0
        if answer is None:
            return 0
        later.answer(answer)
        return len(answer.body)

    def _late_answer(self, parked: Parked[_Ticket], made: Made) -> Answer | None:
        """The answer to a pull that has waited, or None when an errand gives it. The world may have changed."""
        ticket = parked.ticket
        request, later = ticket.request, ticket.later
        admitted = self._checks.admit(request, ticket.peer, parked)
        answer = self._take_move(admitted)
        if answer is not None:
            return answer
        if not ticket.peer.is_writable:
            return pullanswer.again(
                request.queue_offset, *self._ends(request), admitted.topic_flag, admitted.group_flag
            )
        hot = self._read_once(admitted, made)
        if hot is not None:
            return self._woken_answer(admitted, hot)
        later.promise(self._most_bytes(request))
        self._errands.add(later, self._serve_cold(admitted))
        return None

    async def _serve_cold(self, admitted: Admitted) -> Answer:
        return self._woken_answer(admitted, await self._read(admitted))

    def _woken_answer(self, admitted: Admitted, pulled: pulling.Pulled) -> Answer:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, pulled.next_offset)
        return self._answer(admitted, pulled, pullanswer.code_of(pulled, request.queue_offset))

    def _set_timer(self) -> None:
        deadline_ms = self.parked.next_deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._expire, deadline_ms)

    def _expire(self, deadline_ms: int) -> None:
        self._timer = None
        # A timer may come a little before its time by the loop's own clock: what it was set for has come.
        self._wake(self.parked.expired(max(deadline_ms, _now_ms()), TAKEN_AT_ONCE))
        self._set_timer()


def _light(request: Pull) -> Pull:
    """A pull without text that is not needed to answer it."""
    texts = request.subscription, request.expression_type, request.lite_topic, request.proxy_forward_client_id
    if sum(len(text) for text in texts if text) <= LIGHT_CHARACTERS:
        return request
    return replace(request, subscription=None, expression_type=None, lite_topic=None, proxy_forward_client_id=None)


def _limited(admitted: Admitted, most: int, size: int) -> pulling.Pull:
    """What is asked of the store: Apache's limits, or those of a consumer that asked for large answers."""
    request = admitted.request
    if request.large and request.max_msg_bytes is not None:
        most, size = LARGE_PULL_MESSAGES, min(request.max_msg_bytes, LARGE_PULL_BYTES)
    return pulling.Pull(request.queue_offset, max(1, min(request.max_msg_nums, most)), size, admitted.tags)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
