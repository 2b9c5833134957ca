"""Takes back timed messages that are not due yet. Java: ``RecallMessageProcessor``.

A recall is stored as a timed message of the same slot that names the unique key of the other; when the slot is due,
neither is delivered.
"""

from typing import Final

import msgspec

from firearrow.broker.gate.gate import Gate, KeptAnswer, Refusal
from firearrow.broker.identity import Identity
from firearrow.broker.send.incoming import Destination, not_stored, usage_text
from firearrow.broker.send.marks import born_host
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.timer.admission import parked
from firearrow.errors import DiskError, FireArrowError, IllegalMessage
from firearrow.model import EpochMs, keys
from firearrow.model.numbers import whole_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import RecallMessage, RecallMessageAnswer
from firearrow.record.encode import Draft
from firearrow.record.properties import encode_properties
from firearrow.record.recall_handle import RecallHandle, decode_handle
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.store import Store

TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


class _Region(Fields, frozen=True, kw_only=True, gc=False):
    """The fields of a refused recall."""

    msg_region: str = msgspec.field(name="MSG_REGION")


class RecallHandlers:
    """Takes recalls from producers."""

    def __init__(
        self,
        *,
        store: Store,
        gate: Gate,
        settings: LiveSettings,
        topics: TopicBook,
        clock: Clock,
        identity: Identity,
        disk: Disk,
    ) -> None:
        self._store = store
        self._gate = gate
        self._settings = settings
        self._topics = topics
        self._clock = clock
        self._identity = identity
        self._disk = disk

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        self._gate.before(handlers).on(RecallMessage, self.recall)

    def recall(self, request: RecallMessage, call: Call) -> KeptAnswer:
        """Store a recall; answer with the unique key of the message once the recall is kept."""
        try:
            self._check(request)
            handle = self._handle(request)
            self._gate.check()
            end = self._append(request, handle, call)
        except Refused as refusal:
            return self._refused(refusal)
        except (DiskError, IllegalMessage) as error:
            return self._not_stored(error)
        answer = RecallMessageAnswer(msg_id=handle.unique_key, msg_region=self._settings.broker.region_id)
        return self._gate.placed(call, end, Answer(answer))

    def _refused(self, refusal: Refused) -> Refusal:
        return Refusal(
            _Region(msg_region=self._settings.broker.region_id), code=int(refusal.code), remark=refusal.remark
        )

    def _not_stored(self, error: FireArrowError) -> Refusal:
        most = self._settings.value.log.max_message_size
        return self._refused(not_stored(error, most, lambda: usage_text(self._disk.usage())))

    def _check(self, request: RecallMessage) -> None:
        broker = self._settings.broker
        if not broker.recall_message_enable:
            remark = "recall failed, operation is forbidden: recallMessageEnable is false at this broker"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        opens_ms = broker.start_accept_send_request_time_stamp
        shut = not broker.is_writable and not broker.allow_recall_when_broker_not_writeable
        if shut or self._clock.now_ms() < opens_ms:
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(request.topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{request.topic}] not exist")

    def _handle(self, request: RecallMessage) -> RecallHandle:
        """Return the handle of a request if it is one of this broker and its time is still to come."""
        try:
            handle = decode_handle(request.recall_handle)
        except IllegalMessage:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid") from None
        if handle.topic != request.topic:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker != self._identity.name:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
        time_ms = whole_number(handle.time)
        left_ms = -1 if time_ms is None else time_ms - self._clock.now_ms()
        if not 0 < left_ms < self._settings.value.timers.timer_max_delay_sec * 1000:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
        return handle

    def _append(self, request: RecallMessage, handle: RecallHandle, call: Call) -> int:
        config, now_ms = self._settings.value.timers, self._clock.now_ms()
        prefix = f"{handle.topic}+" if config.append_topic_for_timer_delete_key else ""
        properties = {
            keys.TAGS: TAG,
            keys.TIMER_DEL_UNIQKEY: f"{prefix}{handle.unique_key}",
            keys.UNIQ_KEY: handle.unique_key,
            keys.TIMER_DELIVER_MS: handle.time,
            keys.BORN_TIMESTAMP: str(now_ms),
        }
        if request.producer_group:
            properties[keys.PGROUP] = request.producer_group
        place = parked(Destination(handle.topic, 0, properties), 0, config, now_ms)
        draft = Draft(
            place.topic,
            place.queue_id,
            _BODY,
            encode_properties(place.properties),
            EpochMs(now_ms),
            born_host(call),
            self._identity.store_host,
        )
        return self._store.append(draft).end
