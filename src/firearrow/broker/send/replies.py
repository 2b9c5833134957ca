"""The answers to sends: an answer leaves once the gate lets it pass.

The answer waits in a line of the `Gate` until the record is kept, or only written where the sender says WAIT=false. The
answer is added to the line right after the append and nowhere else: only then is it certain that a failed write also
refuses this answer.
"""

from collections.abc import Callable, Sequence
from typing import Final

from firearrow.broker.gate.gate import NOTHING_PLACED, Gate, KeptAnswer, Refusal
from firearrow.broker.send.incoming import not_stored
from firearrow.broker.send.marks import Marks
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import FireArrowError
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_ids
from firearrow.remoting.handlers import Answer, Call, Later

Again = Callable[[], KeptAnswer]
"""Begins a send anew, from its first check on."""


class SendReplies:
    """Makes the answers to sends and hands them to the gate."""

    def __init__(self, gate: Gate, settings: LiveSettings, store_host: HostBytes, disk_text: Callable[[], str]) -> None:
        self._settings = settings
        self._store_host = store_host
        self._disk_text = disk_text
        self.gate: Final = gate
        gate.refused = self._unavailable
        self.failed = 0
        """Number of messages that the store did not take."""
        self._configure()
        settings.on_change.append(self._configure)

    def _configure(self) -> None:
        broker = self._settings.broker
        self.marks = Marks.make(
            broker.region_id, broker.broker_cluster_name, self._store_host, trace_on=broker.trace_on
        )
        self.max_body = self._settings.value.log.max_message_size

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

    def acknowledge(self, call: Call, end: int, answer: SendAnswer, *, waits: bool = True) -> KeptAnswer:
        """Answer once the record just appended, up to ``end``, is kept, or only written if the sender does not wait."""
        if call.asked.heading.flag & ONEWAY_FLAG:
            return NOTHING_PLACED
        return self.gate.answer_send(call.later(), end, Answer(answer), waits=waits)

    def refused(self, refusal: Refused) -> Refusal:
        """Return the answer to a message that the broker refuses."""
        return Refusal(self.marks.on_answers, code=int(refusal.code), remark=refusal.remark)

    def not_stored(self, error: FireArrowError) -> Refusal:
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

    def _unavailable(self, error: FireArrowError) -> Refusal:
        return self.refused(not_stored(error, self.max_body, self._disk_text))
