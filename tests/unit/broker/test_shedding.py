"""Sends are refused unread once a turn has no time for another, and the reason is the turn's own."""

from firearrow.broker.gate.gate import Gate
from firearrow.broker.send.admission import Admission
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.serialize import encode_request, read_heading
from firearrow.record.hosts import HostBytes
from firearrow.runtime.turn import TurnBudgets
from firearrow.store.placement import Level
from tests.unit.broker.test_admission import run, sends_that_fit
from tests.unit.broker.whole import a_send


class Log:
    """A log that nothing reaches."""

    handed = written = flushed = 0
    fenced = None

    def on_reached(self, offset: int, level: Level, call: object) -> None:
        raise AssertionError((offset, level, call))


def test_sends_are_refused_unread_once_there_is_no_time_for_another() -> None:
    async def scenario() -> None:
        settings = LiveSettings(BrokerSettings())
        replies = SendReplies(Gate(Log(), settings, TableChanges()), settings, HostBytes(bytes(8)), lambda: "")
        admission = Admission(settings, TurnBudgets(), lambda: replies.marks.on_answers)
        assert not admission.is_shut()
        assert admission.rest_s == admission.limit_s
        sends_that_fit(admission)
        assert admission.is_shut()
        refusals = admission.refusals()
        assert admission.refusals() is refusals, "one refusal serves a whole turn"
        before = admission.refused
        answers, count, rest = refusals.shed(encode_request(Encoding.COMPACT, a_send(), 7, body_size=1) + b"x")
        admission.refused_some(count)
        assert (count, rest, admission.refused) == (1, b"", before + 1)
        ((encoding, header, _),) = FrameSplitter().feed(b"".join(answers))
        heading, _ = read_heading(encoding, header)
        assert (heading.code, heading.opaque) == (ResponseCode.SYSTEM_BUSY, 7)
        assert "TIMEOUT_CLEAN_QUEUE" in (heading.remark or "")
        assert b"MSG_REGION" in header

    run(scenario())
