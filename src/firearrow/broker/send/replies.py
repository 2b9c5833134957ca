"""The answers to sends: an answer leaves once the log has written or synced the record.

The answer waits in `Acks` until the log has written the record, or synced it where the broker syncs and the sender does
not say WAIT=false. The answer is added to `Acks` right after the append and nowhere else: only then is it certain that
a failed write also refuses this answer.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from firearrow.broker.send.incoming import not_stored
from firearrow.broker.send.marks import Marks
from firearrow.broker.send.waiting_answers import Log, Owed, lines_of
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import FireArrowError
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_ids
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later

Again = Callable[[], Answer | Later]
"""Begins a send anew, from its first check on."""


class AckLine(Protocol):
    """Where answers wait until their records are safe."""

    def add(self, end: int, later: Owed, answer: Answer) -> None:
        """Send ``answer`` once the record up to ``end`` is safe."""
        ...


class Confirmation(Protocol):
    """Where answers wait for slaves after their records are kept on the master."""

    @property
    def refusal(self) -> Refused | None:
        """Why no message is taken that waits for slaves; None while enough replicas are in sync."""
        ...

    def owed(self, end: int, later: Owed) -> Owed:
        """Return what takes the answer for a record that ends at ``end`` once the master keeps it."""
        ...

    def wait(self, end: int, later: Owed, answer: Answer) -> bool:
        """Send the answer for a record that the master keeps when enough slaves have it."""
        ...


class _WithSlaves:
    """A line of the log whose answers then wait for slaves."""

    def __init__(self, line: AckLine, confirmation: Confirmation) -> None:
        self._line = line
        self._confirmation = confirmation

    def add(self, end: int, later: Owed, answer: Answer) -> None:
        self._line.add(end, self._confirmation.owed(end, later), answer)


class SendReplies:
    """Makes the answers to sends and holds them until their records are written or synced."""

    def __init__(self, log: Log, settings: LiveSettings, store_host: HostBytes, disk_text: Callable[[], str]) -> None:
        self._settings = settings
        self._store_host = store_host
        self._disk_text = disk_text
        self.syncs = False
        """Whether answers wait for the sync unless the sender says WAIT=false."""
        self.lines: Final = lines_of(log, self._unavailable, lambda: settings.broker.sync_flush_timeout)
        self.written = self.lines[0]
        self.acks: AckLine = self.written
        self.waits = False
        """Whether answers wait for more than the write, unless the sender says WAIT=false."""
        self.slaves: Confirmation | None = None
        """Where answers wait for slaves; None when they do not."""
        self.failed = 0
        """Number of messages that the store did not take."""
        self._configure()
        settings.on_change.append(self._configure)

    def wait_for_slaves(self, confirmation: Confirmation) -> None:
        """Let answers wait for slaves too, from now on."""
        self.slaves = confirmation
        self._configure()

    @property
    def is_short_of_replicas(self) -> bool:
        """Whether messages are refused because too few replicas are in sync."""
        return self.slaves is not None and self.slaves.refusal is not None

    def check_replicas(self) -> None:
        """Refuse a message that waits for slaves while too few replicas are in sync."""
        if self.slaves is not None and self.slaves.refusal is not None:
            raise self.slaves.refusal

    def _configure(self) -> None:
        broker = self._settings.broker
        self.marks = Marks.make(
            broker.region_id, broker.broker_cluster_name, self._store_host, trace_on=broker.trace_on
        )
        self.max_body = self._settings.value.log.max_message_size
        self.syncs = self._settings.value.log.syncs_first
        line = self.lines[self.syncs]
        self.acks = line if self.slaves is None else _WithSlaves(line, self.slaves)
        self.waits = self.syncs or self.slaves is not None

    def stored(
        self, msg_id: str, queue_id: int, queue_offset: int, transaction_id: str | None, handle: str | None = None
    ) -> SendAnswer:
        """Return the answer to a stored message or batch; ``handle`` is for taking a timed message back."""
        marks = self.marks.on_answers
        return SendAnswer(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            recall_handle=handle,
            msg_region=marks.msg_region,
            trace_on=marks.trace_on,
        )

    def id_of(self, physical: int) -> str:
        """Return the message id of the record at a physical offset."""
        return f"{self.marks.id_prefix}{physical:016X}"

    def ids_of(self, places: Sequence[int]) -> str:
        """Return the message ids of a batch, separated by commas, from their physical offsets."""
        return offset_message_ids(self._store_host, places)

    def acknowledge(self, call: Call, end: int, answer: SendAnswer, *, waits: bool = True) -> Answer | Later:
        """Answer once the record just appended, up to ``end``, is written, or synced if the sender ``waits``."""
        if call.asked.heading.flag & ONEWAY_FLAG:
            return SUCCESS
        later = call.later()
        (self.acks if waits else self.written).add(end, later, Answer(answer))
        return later

    def refused(self, refusal: Refused) -> Answer:
        """Return the answer to a message that the broker refuses."""
        return Answer(self.marks.on_answers, code=int(refusal.code), remark=refusal.remark)

    def not_stored(self, error: FireArrowError) -> Answer:
        """Count a message that the store did not take, and return its answer."""
        self.failed += 1
        return self._unavailable(error)

    def resume(self, later: Later, again: Again, error: Exception | None) -> None:
        """Begin a send anew that had to wait, or refuse it with the error that came of the wait.

        Runs in a task of the broker: what the send raises is answered and logged, as for a handler.
        """
        try:
            if error is not None and not isinstance(error, FireArrowError):
                raise error
            answer = again() if error is None else self.not_stored(error)
        except Exception as wrong:  # noqa: BLE001 - the other sends that waited must still be answered
            later.fail(wrong)
        else:
            if isinstance(answer, Answer):
                later.answer(answer)

    def _unavailable(self, error: FireArrowError) -> Answer:
        return self.refused(not_stored(error, self.max_body, self._disk_text))
