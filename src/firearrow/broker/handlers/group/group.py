"""Subscription groups, for operators. Java: ``AdminBrokerProcessor``.

A request that creates, changes or deletes a group, alone or with its offsets, is answered when that is durable.
"""

from typing import Final

from firearrow import fastjson
from firearrow.broker.handlers.admin.large_answer import put_together
from firearrow.broker.state.saved import when_all
from firearrow.broker.state.state_file import OnSaved
from firearrow.broker.tables.tables import Tables
from firearrow.errors import BadBody, FireArrowError
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

PAGE_SIZE: Final = 1000
"""Most groups in one page (Apache's ``splitMetadataSize``)."""


class GroupHandlers:
    """Creates, changes, lists and deletes groups."""

    def __init__(self, tables: Tables) -> None:
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._offset_file = tables.offset_file
        self._jobs = tables.jobs

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(UpdateAndCreateSubscriptionGroup, self.update, urgent=True)
        handlers.on(UpdateAndCreateSubscriptionGroupList, self.update_list, urgent=True)
        handlers.on(GetAllSubscriptionGroupConfig, self.all_groups, urgent=True)
        handlers.on(GetSubscriptionGroupConfig, self.one_group, urgent=True)
        handlers.on(DeleteSubscriptionGroup, self.delete, urgent=True)
        handlers.on(UpdateAndGetGroupForbidden, self.forbid, urgent=True)

    def update(self, _request: UpdateAndCreateSubscriptionGroup, call: Call) -> Later:
        """Create or change a group."""
        return self._put([request_body(call.body, SubscriptionGroupConfig)], call)

    def update_list(self, _request: UpdateAndCreateSubscriptionGroupList, call: Call) -> Later | None:
        """Create or change several groups."""
        groups = request_body(call.body, SubscriptionGroupList).group_config_list
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
        """Return all groups, or a page of them. The answer with all is built over several turns: there may be many."""
        if (request.group_seq, request.data_version, request.max_group_num) == (None, None, None):
            return self._jobs.do(call, self._all_groups())
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

    def delete(self, request: DeleteSubscriptionGroup, call: Call) -> Later:
        """Delete a group."""
        later = call.later()
        tell = _answering(later)
        if request.clean_offset or request.remove_offset:
            tell = when_all(2, tell)
            self._offsets.forget_group(request.group_name)
            self._offset_file.changed(tell)
        self._groups.delete(request.group_name, tell)
        return later

    def forbid(self, request: UpdateAndGetGroupForbidden, call: Call) -> Answer | Later:
        """Return whether a group may read a topic, or change that."""
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
