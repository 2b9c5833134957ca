"""The one way from "placed" to "success": an answer that says that something is stored or changed passes here.

A handler places its record or its change first, and hands the answer to the gate with the place:

- a record: the end of the record in the log. The answer leaves when the log is as durable there as ``flushDiskType``
  promises, and when the replicas that this broker waits for have it: a SYNC_MASTER's slaves, or every member of an
  elected group's in-sync set. Sends, send-backs, recalls and ends of transactions wait alike.
- a change of a table: its `StateFile`. The answer leaves when the file is durable and, in an elected group, when every
  member in sync has told that it has the change durably, too (`Changes`).

What is placed and not known to stay is answered so: sends by the codes 10, 11 and 12, which mean that to a producer;
every other request by a refusal, in the words of its row in `PROMISES`.

Before it places anything, a handler asks `check` (a record) or `check_change` (a table). While too few
replicas are in sync no record is taken, also none whose sender waits for nothing (WAIT=false). A master of an elected
group that some member in sync has not reported to within the lease may have been replaced: it takes no change and
nothing that is only admitted. Reports alone count, not the coordinator's word, so an outage of etcd stops nothing.

Only this module makes a `GatedAnswer` or a `PlainSuccess`, and a handler of a request whose success is KEPT returns
nothing else but refusals. So a bare success is a type error there (`Gate.before`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar, cast

from firearrow.broker.gate.promises import PROMISES, Success, SuccessStep
from firearrow.broker.gate.waiting_answers import DurableLog, OwedAnswer, lines_of
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.meters import TrafficCounts
from firearrow.errors import FireArrowError
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.conversation import Fields, Request
from firearrow.protocol.refusal import Refused
from firearrow.protocol.sends import SEND_CODES
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Handlers, Later, ManyLater

NOT_KNOWN: Final = frozenset(
    {ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT}
)
"""The answers to a send whose message is stored here but not known to stay."""

R = TypeVar("R", bound=Request[Any])
W = TypeVar("W")


class GatedAnswer(Later, eq=False, gc=False):
    """An answer that the gate sends when its change is kept. A name for type checkers: every instance is a `Later`."""


class PlainSuccess(Answer, frozen=True, gc=False):
    """A success that promises nothing new: nothing was placed, the change was kept before, or a request is one-way."""


class Refusal(Answer, frozen=True, gc=False):
    """An answer that is no success."""

    def __post_init__(self) -> None:
        """Refuse a success."""
        if self.code == ResponseCode.SUCCESS:
            raise ValueError("a refusal cannot say success")


KeptAnswer = GatedAnswer | PlainSuccess | Refusal
"""The value that a handler returns for a request whose success is KEPT."""
KeptJob = Coroutine[Any, Any, KeptAnswer]
NOTHING_PLACED: Final = PlainSuccess()
"""The success of a request that had nothing to change, or that is one-way."""


class AckLine(Protocol):
    """A line in which answers wait until their records are safe."""

    def add(self, end: int, later: OwedAnswer, answer: Answer) -> None:
        """Send ``answer`` once the record up to ``end`` is safe."""
        ...


class ReplicaLine(Protocol):
    """A line in which answers wait for replicas after their records are kept on the master."""

    @property
    def refusal(self) -> Refused | None:
        """The reason why no record is taken; None while enough replicas are in sync."""
        ...

    @property
    def heard_until_s(self) -> float:
        """Until when this broker is surely the master, by the loop's clock: its lease by the replicas' reports."""
        ...

    def owed(self, end: int, later: OwedAnswer) -> OwedAnswer:
        """Return what takes the answer for a record that ends at ``end`` once the master keeps it."""
        ...

    def wait(self, end: int, later: OwedAnswer, answer: Answer) -> bool:
        """Send the answer for a record that the master keeps when enough replicas have it."""
        ...


class Changes(Protocol):
    """The changes of the tables of this broker."""

    def check(self) -> None:
        """Raise ``Refused`` while nothing may be changed, because too few replicas are in sync."""
        ...

    def answer(self, later: OwedAnswer, answer: Answer) -> None:
        """Count a change that is durable here, and answer its request once the replicas in sync have it."""
        ...


class _ReplicatedLine:
    """A line of the log whose answers then wait for replicas."""

    def __init__(self, line: AckLine, replicas: ReplicaLine) -> None:
        self._line = line
        self._replicas = replicas

    def add(self, end: int, later: OwedAnswer, answer: Answer) -> None:
        self._line.add(end, self._replicas.owed(end, later), answer)


class _UnknownOutcome:
    """One owed answer to a request whose sender knows no code for an unknown outcome."""

    __slots__ = ("_code", "_later")

    def __init__(self, code: int, later: OwedAnswer) -> None:
        self._code = code
        self._later = later

    def answer(self, answer: Answer) -> bool:
        return self._later.answer(unknown(self._code) if answer.code in NOT_KNOWN else answer)


class KeptHandlers:
    """Registers the handlers of requests whose success is KEPT."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def on(self, request: type[R], function: Callable[[R, Call], KeptAnswer], *, urgent: bool = False) -> None:
        """Answer requests of this type with ``function``, which has its success from the gate."""
        if PROMISES[request.code].success is not Success.KEPT:
            raise ValueError(f"PROMISES does not call the success of {request.code.name} kept")
        self._handlers.on(request, function, urgent=urgent)


class Gate:
    """Knows what a success waits for at this broker, and sends it then."""

    def __init__(self, log: DurableLog, settings: LiveSettings, changes: Changes) -> None:
        self._changes = changes
        self._log = log
        self._settings = settings
        self._now_s = asyncio.get_running_loop().time
        self.replicas: ReplicaLine | None = None
        """The line in which answers wait for replicas; None when they do not wait. Set by `wait_for`."""
        self.refused: Callable[[FireArrowError], Answer] = _refused
        """Makes the answer to a request whose record was taken back; the sends' own, once there are sends."""
        self.lines: Final = lines_of(log, lambda error: self.refused(error), lambda: settings.broker.sync_flush_timeout)
        self.written: AckLine = self.lines[0]
        """The line of answers that wait for the write alone (WAIT=false)."""
        self.kept: AckLine = self.written
        """The line in which answers wait until their records are kept."""
        self.syncs = False
        """Whether the log is synced before an answer leaves."""
        self.waits = False
        """Whether answers wait for more than the write."""
        self._configure()
        settings.on_change.append(self._configure)

    def before(self, handlers: Handlers) -> KeptHandlers:
        """Return where handlers are registered that have their success from the gate."""
        return KeptHandlers(handlers)

    def wait_for(self, replicas: ReplicaLine | None) -> None:
        """Let answers wait for replicas too, from now on; None for none."""
        self.replicas = replicas
        self._configure()

    def _configure(self) -> None:
        self.syncs = self._settings.value.log.syncs_first
        line = self.lines[self.syncs]
        self.kept = line if self.replicas is None else _ReplicatedLine(line, self.replicas)
        self.waits = self.syncs or self.replicas is not None

    # ---- before something is placed

    @property
    def is_shut(self) -> bool:
        """Whether some records are not taken: too few replicas are in sync, or another broker may lead the group."""
        return self.replicas is not None and (self.replicas.refusal is not None or not self.leads)

    @property
    def leads(self) -> bool:
        """Whether no other broker can lead the group: every replica in sync has reported within the lease."""
        return self.replicas is None or self._now_s() <= self.replicas.heard_until_s

    def check(self) -> None:
        """Raise ``Refused`` while no record may be placed."""
        if self.replicas is not None and self.replicas.refusal is not None:
            raise self.replicas.refusal

    def check_lead(self) -> None:
        """Raise ``Refused`` while another broker may lead the group: before a change, and for what is only admitted."""
        if not self.leads:
            remark = (
                "a replica in sync has not reported within the lease, so another broker may be the master: ask again, "
                "at the master that name servers tell"
            )
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def check_change(self) -> None:
        """Raise ``Refused`` while no table may be changed."""
        self.check_lead()
        self._changes.check()

    # ---- after something is placed

    def placed(
        self,
        call: Call | ManyLater,
        end: int,
        answer: Answer = SUCCESS,
        counts: TrafficCounts | None = None,
        messages: int = 0,
        size: int = 0,
        remember: Iterable[Callable[[], object]] = (),
        waits: bool = True,
    ) -> GatedAnswer | PlainSuccess:
        """Count, remember and answer: the one ending of every request whose record, which ends at ``end``, is placed.

        Called right after the append and nowhere else: only then is it certain that a failed write also refuses this
        answer. It leaves once the record is kept, or just written if ``waits`` is False.
        """
        if counts is not None:
            counts.messages += messages
            counts.size += size
        for note in remember:
            note()
        line = self.kept if waits else self.written
        if isinstance(call, ManyLater):
            line.add(end, call, answer)
            return NOTHING_PLACED
        heading = call.asked.heading
        if heading.flag & ONEWAY_FLAG:
            return NOTHING_PLACED
        later = call.later()
        line.add(end, later if heading.code in SEND_CODES else _UnknownOutcome(heading.code, later), answer)
        return later  # type: ignore[return-value] # a `cast` would cost a call

    def kept_before(self, physical: int, answer: Fields, *, waits: bool) -> PlainSuccess | None:
        """Return the answer to the repeat of a send whose record is kept; None if that is not known yet."""
        if self.replicas is not None and waits:
            return None
        reached = self._log.flushed if waits and self.syncs else self._log.written
        return PlainSuccess(answer) if physical < reached else None

    def confirm(self, code: RequestCode, end: int, later: OwedAnswer) -> None:
        """Answer a request that is no send, whose record this broker keeps, once the replicas have it."""
        if self.replicas is None:
            later.answer(SUCCESS)
        else:
            self.replicas.wait(end, _UnknownOutcome(code, later), SUCCESS)

    def changed(self, call: Call, answer: Answer = SUCCESS) -> GatedAnswer:
        """Answer a change whose file is durable: at once where it counts for this broker alone, else with replicas."""
        later, code = call.later(), call.asked.heading.code
        if PROMISES[RequestCode(code)].placed is SuccessStep.OWN:
            later.answer(answer)
        else:
            self._changes.answer(_UnknownOutcome(code, later), answer)
        return cast("GatedAnswer", later)

    def unchanged(self, answer: Answer) -> PlainSuccess:
        """Return the answer to a request that could have changed something, and only asked."""
        return PlainSuccess(answer.fields, answer.body)

    def when_saved(
        self, call: Call, answer: Answer = SUCCESS, failure: str = "{}"
    ) -> tuple[GatedAnswer, Callable[[FireArrowError | None], None]]:
        """Return the answer to a change, and what is told once its file is durable, or with the error."""
        later = call.later()

        def saved(error: FireArrowError | None) -> None:
            if error is None:
                self.changed(call, answer)
            else:
                later.refuse(ResponseCode.SYSTEM_ERROR, failure.format(error))

        return cast("GatedAnswer", later), saved

    def job(self, do: Callable[[Call, W, KeptJob], Later], call: Call, wait: W, job: KeptJob) -> GatedAnswer:
        """Have a coroutine done, in the lane of its kind of wait, that places something and returns the answer."""
        return cast("GatedAnswer", do(call, wait, job))

    def owed(self, later: Later) -> GatedAnswer:
        """Return an answer that reaches the gate by `confirm`, or begins its request anew."""
        return cast("GatedAnswer", later)


def unknown(code: int) -> Refusal:
    """Return the answer to a request that is no send when its change is placed and not known to stay."""
    return Refusal(code=int(ResponseCode.SYSTEM_ERROR), remark=PROMISES[RequestCode(code)].unknown)


def _refused(error: FireArrowError) -> Answer:
    return Refusal(code=int(ResponseCode.SERVICE_NOT_AVAILABLE), remark=str(error))
