"""The answers to sends, and the sends that begin anew because they had to wait."""

from collections.abc import Callable, Sequence
from typing import Final

from firearrow.broker.gate.gate import Gate, Refusal
from firearrow.broker.send.incoming import not_stored
from firearrow.broker.send.marks import SendMarks
from firearrow.broker.send.sent import Again
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import FireArrowError
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_ids
from firearrow.remoting.handlers import Answer, Later


class SendReplies:
    """Makes the answers to sends."""

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
        self.marks = SendMarks.make(
            broker.region_id, broker.broker_cluster_name, self._store_host, trace_on=broker.trace_on
        )
        self.max_body = self._settings.value.log.max_message_size

    def stored(self, msg_id: str, queue_id: int, queue_offset: int, transaction_id: str | None) -> SendAnswer:
        """Return the answer to a message that is stored, or was before."""
        marks = self.marks.on_answers
        return SendAnswer(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            msg_region=marks.msg_region,
            trace_on=marks.trace_on,
        )

    def ids_of(self, places: Sequence[int]) -> str:
        """Return the message ids of a batch, separated by commas, from their physical offsets."""
        return offset_message_ids(self._store_host, places)

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
