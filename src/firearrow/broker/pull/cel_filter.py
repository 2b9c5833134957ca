"""Filters by CEL: they decide by the properties and the body of a message, within limits (`FilterLimits`). Pure."""

from functools import partial
from typing import Final

from firearrow.broker.pull.filter_budget import FilterCost, FilterLimits
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.errors import BadBody, Unsupported
from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.program import CelProgram, CelVerdict
from firearrow.expression.errors import NoValue
from firearrow.model import keys
from firearrow.model.flags import COMPRESSED
from firearrow.model.names import is_retry_topic
from firearrow.record.compression import decompress
from firearrow.record.decode import RecordHead, peek
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties

_OF_PROPERTIES: Final = frozenset({"properties", "tag", "keys"})
"""The variables that are known before a message's record is read."""


class CelFilter(MessageFilter, frozen=True, eq=False):
    """A compiled CEL expression that decides about records."""

    program: CelProgram
    limits: FilterLimits

    @property
    def text(self) -> str:
        """The expression."""
        return self.program.text

    @property
    def steps(self) -> int:
        """The steps of an evaluation, without what macros and long values add."""
        return self.program.steps

    def own(self) -> "CelFilter":
        """Return another filter of the same expression."""
        return CelFilter(self.program, self.limits)

    def passes(self, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message with these properties may pass: True if more than they must be known."""
        if not _OF_PROPERTIES.issuperset(self.program.names):
            return True
        return self._judged(MessageView("", decode_properties(properties), bytes, 0, 0), cost)

    def admits(self, record: Buffer, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message passes."""
        head, found = peek(record), decode_properties(properties)
        topic = found.get(keys.RETRY_TOPIC, head.topic) if is_retry_topic(head.topic) else head.topic
        read_body = partial(_body, head, record, self.limits.body_bytes)
        return self._judged(MessageView(topic, found, read_body, head.born_timestamp, head.store_timestamp), cost)

    def _judged(self, view: MessageView, cost: FilterCost) -> bool:
        judged = self.program.judge(view, self.limits.steps)
        cost.add(judged.steps, judged.reason)
        return judged.verdict is CelVerdict.TRUE


def _body(head: RecordHead, record: Buffer, most_bytes: int) -> bytes:
    if head.body_length > most_bytes:
        raise NoValue(f"the body has {head.body_length} bytes; a filter reads at most {most_bytes}")
    body = head.body(record)
    if not head.sys_flag & COMPRESSED:
        return body
    try:
        return decompress(body, head.sys_flag, most_bytes)
    except (BadBody, Unsupported) as wrong:
        raise NoValue(f"the body cannot be decompressed for a filter: {wrong}") from None
