"""Consumer groups as operators see them. Java: ``AdminBrokerProcessor``.

Whoever makes, changes or deletes a group, alone or with its offsets, is answered when that is durable.
"""

from typing import Final, TypeVar

from firearrow import fastjson
from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.handlers.large import put_together
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.saved import when_all
from firearrow.broker.statefile import OnSaved, StateFile
from firearrow.errors import BadBody, FireArrowError
from firearrow.model.names import group_fault
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupAnswer,
    GetAllSubscriptionGroupConfig,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateAndGetGroupForbidden,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later

T = TypeVar("T")

PAGE_SIZE: Final = 1000
"""Groups in one page at most (Apache's ``splitMetadataSize``)."""


class GroupHandlers:
    """Groups, made, changed, shown and deleted."""

    def __init__(self, groups: Groups, offsets: OffsetTable, offset_file: StateFile, errands: Errands) -> None:
        self._groups = groups
        self._offsets = offsets
        self._offset_file = offset_file
        self._errands = errands

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(UpdateAndCreateSubscriptionGroup, self.update, urgent=True)
        handlers.on(UpdateAndCreateSubscriptionGroupList, self.update_list, urgent=True)
        handlers.on(GetAllSubscriptionGroupConfig, self.all_groups, urgent=True)
        handlers.on(GetSubscriptionGroupConfig, self.one_group, urgent=True)
        handlers.on(DeleteSubscriptionGroup, self.delete, urgent=True)
        handlers.on(UpdateAndGetGroupForbidden, self.forbid, urgent=True)

    def update(self, _request: UpdateAndCreateSubscriptionGroup, call: Call) -> Later:
        """Make or change a group."""
        return self._put([_decoded(call.body, SubscriptionGroupConfig)], call)

    def update_list(self, _request: UpdateAndCreateSubscriptionGroupList, call: Call) -> Later | None:
        """Make or change several groups."""
        groups = _decoded(call.body, SubscriptionGroupList).group_config_list
        return self._put(groups, call) if groups else None

    def _put(self, groups: list[SubscriptionGroupConfig], call: Call) -> Later:
        for group in groups:
            fault = group_fault(group.group_name or "")
            if fault is not None:
                raise Refused(ResponseCode.INVALID_PARAMETER, fault)
        later = call.later()
        for group in groups[:-1]:
            self._groups.put(group, lambda _error: None)
        self._groups.put(groups[-1], _answering(later))
        return later

    def all_groups(self, request: GetAllSubscriptionGroupConfig, call: Call) -> Answer | Later:
        """All groups, or a page of them. All are put together in turns: there may be very many."""
        if (request.group_seq, request.data_version, request.max_group_num) == (None, None, None):
            return self._errands.do(call, self._all_groups())
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

    def one_group(self, request: GetSubscriptionGroupConfig, _call: Call) -> Answer:
        """One group."""
        group = self._groups.get(request.group)
        if group is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Answer(body=encode_body(group))

    def delete(self, request: DeleteSubscriptionGroup, call: Call) -> Later:
        """Forget a group."""
        later = call.later()
        tell = _answering(later)
        if request.clean_offset or request.remove_offset:
            tell = when_all(2, tell)
            self._offsets.forget_group(request.group_name)
            self._offset_file.changed(tell)
        self._groups.delete(request.group_name, tell)
        return later

    def forbid(self, request: UpdateAndGetGroupForbidden, call: Call) -> Answer | Later:
        """Whether a group may read a topic, and a change of that."""
        group, topic = request.group, request.topic
        if request.readable is None:
            readable = self._groups.table.may_read(group, topic)
            return Answer(body=encode_body(GroupForbidden(group=group, topic=topic, readable=readable)))
        later = call.later()
        body = encode_body(GroupForbidden(group=group, topic=topic, readable=request.readable))
        on_saved = _answering(later, Answer(body=body))
        self._groups.allow_reading(group, topic, allowed=request.readable, on_saved=on_saved)
        return later


def _answering(later: Later, answer: Answer | None = None) -> OnSaved:
    def answer_saved(error: FireArrowError | None) -> None:
        if error is None:
            later.answer(answer)
        else:
            later.refuse(ResponseCode.SYSTEM_ERROR, str(error))

    return answer_saved


def _version(text: str | None) -> DataVersion | None:
    try:
        return fastjson.decode(text.encode(), DataVersion) if text else None
    except BadBody:
        return None


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return fastjson.decode(body, kind)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
