"""Subscription groups, for operators. Java: ``AdminBrokerProcessor``.

A request that creates, changes or deletes a group, alone or with its offsets, is answered when that is durable.
"""

from typing import Final

from firearrow import fastjson
from firearrow.broker.gate.gate import NOTHING_PLACED, Gate, GatedAnswer, KeptAnswer
from firearrow.broker.handlers.admin.large_answer import put_together
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.state.saved import SaveWaiter, keep
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.pages import GROUP_BYTES_MAX
from firearrow.errors import BadBody
from firearrow.model.names import group_fault
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, request_body
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupAnswer,
    GetAllSubscriptionGroupConfig,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateAndGetGroupForbidden,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.turn import Pace

PAGE_SIZE: Final = 1000
"""Most groups in one page (Apache's ``splitMetadataSize``)."""
OFFSETS_AT_ONCE: Final = 100
"""Topics whose offsets of a group are deleted in one turn of the loop."""


class GroupHandlers:
    """Creates, changes, lists and deletes groups."""

    def __init__(self, *, groups: GroupBook, gate: Gate, offsets: OffsetBook, lanes: Lanes) -> None:
        self._groups = groups
        self._gate = gate
        self._offsets = offsets.table
        self._offset_file = offsets.file
        self._lanes = lanes

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(UpdateAndCreateSubscriptionGroup, self.update, urgent=True)
        kept.on(UpdateAndCreateSubscriptionGroupList, self.update_list, urgent=True)
        kept.on(DeleteSubscriptionGroup, self.delete, urgent=True)
        kept.on(UpdateAndGetGroupForbidden, self.forbid, urgent=True)
        handlers.on(GetAllSubscriptionGroupConfig, self.all_groups, urgent=True)
        handlers.on(GetSubscriptionGroupConfig, self.one_group, urgent=True)

    def update(self, _request: UpdateAndCreateSubscriptionGroup, call: Call) -> KeptAnswer:
        """Create or change a group."""
        return self._put([request_body(call.body, SubscriptionGroupConfig)], call)

    def update_list(self, _request: UpdateAndCreateSubscriptionGroupList, call: Call) -> KeptAnswer:
        """Create or change several groups."""
        groups = request_body(call.body, SubscriptionGroupList).group_config_list
        return self._put(groups, call) if groups else NOTHING_PLACED

    def _put(self, groups: list[SubscriptionGroupConfig], call: Call) -> KeptAnswer:
        for group in groups:
            fault = group_fault(group.group_name or "")
            if fault is not None:
                raise Refused(ResponseCode.INVALID_PARAMETER, fault)
        for name, group in self._groups.table.altered(groups).items():
            size = len(encode_body(group))
            if size > GROUP_BYTES_MAX:
                remark = f"group {name} would take {size} bytes, more than {GROUP_BYTES_MAX}; remove some attributes"
                raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        self._gate.check_change()
        for group in groups[:-1]:
            self._groups.put(group, lambda _error: None)
        answer, saved = self._gate.when_saved(call)
        self._groups.put(groups[-1], saved)
        return answer

    def all_groups(self, request: GetAllSubscriptionGroupConfig, call: Call) -> Answer | Later:
        """Return all groups, or a page of them. The answer with all is built over several turns: there may be many."""
        if (request.group_seq, request.data_version, request.max_group_num) == (None, None, None):
            return self._lanes.do(call, WaitKind.TURNS, self._all_groups())
        table = self._groups.table
        count = PAGE_SIZE if request.max_group_num is None else min(request.max_group_num, PAGE_SIZE)
        same = _version(request.data_version) == table.version
        shown = table.page(max(request.group_seq or 0, 0) if same else 0, max(count, 0))
        return Answer(GetAllSubscriptionGroupAnswer(total_group_num=len(table)), encode_body(shown))

    async def _all_groups(self) -> Answer:
        table = self._groups.table
        count = len(table)
        what = f"{count} groups are {{}}: ask by pages (groupSeq, maxGroupNum), as clients of 5.x do"
        body = bytes(await put_together(table.pieces(), what))
        return Answer(GetAllSubscriptionGroupAnswer(total_group_num=count), body)

    def one_group(self, request: GetSubscriptionGroupConfig, call: Call) -> Answer:
        """Return one group."""
        group = self._groups.of_client(request.group, call.peer)
        if isinstance(group, str):
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker: {group}")
        return Answer(body=encode_body(group))

    def delete(self, request: DeleteSubscriptionGroup, call: Call) -> KeptAnswer:
        """Delete a group."""
        self._gate.check_change()
        if request.clean_offset or request.remove_offset:
            return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._delete_all(request.group_name, call))
        answer, tell = self._gate.when_saved(call)
        self._groups.delete(request.group_name, tell)
        return answer

    async def _delete_all(self, group: str, call: Call) -> GatedAnswer:
        """Delete a group and its offsets, some offsets in a turn of the loop."""
        saved, pace = SaveWaiter(), Pace(OFFSETS_AT_ONCE)
        self._groups.delete(group, saved.tell)
        for topic in list(self._offsets.topics_with(group)):
            self._offsets.forget_row(topic, group)
            await pace.did()
        await keep(self._offset_file.changed)
        await saved.wait()
        return self._gate.changed(call)

    def forbid(self, request: UpdateAndGetGroupForbidden, call: Call) -> KeptAnswer:
        """Return whether a group may read a topic, or change that."""
        group, topic = request.group, request.topic
        if request.readable is None:
            readable = self._groups.table.may_read(group, topic)
            return self._gate.unchanged(_shown(group, topic, readable=readable))
        fault = None if request.readable else self._groups.table.forbidden_fault(group, topic)
        if fault is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, fault)
        self._gate.check_change()
        answer, saved = self._gate.when_saved(call, _shown(group, topic, readable=request.readable))
        self._groups.allow_reading(group, topic, allowed=request.readable, on_saved=saved)
        return answer


def _shown(group: str, topic: str, *, readable: bool) -> Answer:
    return Answer(body=encode_body(GroupForbidden(group=group, topic=topic, readable=readable)))


def _version(text: str | None) -> DataVersion | None:
    try:
        return fastjson.decode(text.encode(), DataVersion) if text else None
    except BadBody:
        return None
