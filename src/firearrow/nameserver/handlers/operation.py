"""Answers to operators: permissions, topics, KV configuration, settings. Java: ``DefaultRequestProcessor``.

Changes of KV configuration and settings are answered once they are on disk.
"""

import logging
from typing import TypeVar

import msgspec

from firearrow.errors import FireArrowError
from firearrow.nameserver.changes import Changes, listing, read_changes
from firearrow.nameserver.kv_config import KvConfig
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.naming.route import KVTable, TopicRouteData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, server_body
from firearrow.protocol.requests.admin.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.naming.kv_config import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvConfigAnswer,
    GetKvListByNamespace,
    PutKvConfig,
)
from firearrow.protocol.requests.naming.route import (
    AddWritePermAnswer,
    AddWritePermOfBroker,
    DeleteTopicInNamesrv,
    RegisterTopicInNamesrv,
    WipeWritePermAnswer,
    WipeWritePermOfBroker,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.disk.stored import OnDone, StoredValue

log = logging.getLogger(__name__)

T = TypeVar("T")


class OperationHandlers:
    """The requests of operators."""

    def __init__(self, routes: Routes, texts: StoredValue[KvConfig], changes: StoredValue[Changes]) -> None:
        self._routes = routes
        self._texts = texts
        self._changes = changes

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(WipeWritePermOfBroker, self.wipe_write)
        handlers.on(AddWritePermOfBroker, self.add_write)
        handlers.on(DeleteTopicInNamesrv, self.delete_topic)
        handlers.on(RegisterTopicInNamesrv, self.register_topic)
        handlers.on(PutKvConfig, self.put_text)
        handlers.on(GetKvConfig, self.get_text)
        handlers.on(DeleteKvConfig, self.delete_text)
        handlers.on(GetKvListByNamespace, self.list_texts)
        handlers.on(UpdateNamesrvConfig, self.update_settings)
        handlers.on(GetNamesrvConfig, self.list_settings)

    def wipe_write(self, request: WipeWritePermOfBroker, _call: Call) -> Answer:
        """Remove the write permission from a broker's queues."""
        count = self._routes.topics.wipe_write(request.broker_name)
        log.info("write permission wiped", extra={"broker": request.broker_name, "topics": count})
        return Answer(WipeWritePermAnswer(wipe_topic_count=count))

    def add_write(self, request: AddWritePermOfBroker, _call: Call) -> Answer:
        """Give a broker's queues read and write permission."""
        count = self._routes.topics.add_write(request.broker_name)
        log.info("write permission added", extra={"broker": request.broker_name, "topics": count})
        return Answer(AddWritePermAnswer(add_topic_count=count))

    def delete_topic(self, request: DeleteTopicInNamesrv, _call: Call) -> None:
        """Delete a topic, in one cluster or in all."""
        self._routes.delete_topic(request.topic, request.cluster_name)
        log.info("topic deleted", extra={"topic": request.topic, "cluster": request.cluster_name})

    def register_topic(self, request: RegisterTopicInNamesrv, call: Call) -> None:
        """Add the queues of one topic; if a broker is unknown nothing is added, without an error, as in Apache."""
        make = self._routes.topics.queues
        held = {
            queue.broker_name or "": make(
                queue.read_queue_nums, queue.write_queue_nums, queue.perm, queue.topic_sys_flag
            )
            for queue in _route_data(call.body).queue_datas
        }
        if not self._routes.add_topic(request.topic, held):
            extra = {"topic": request.topic, "brokers": list(held)}
            log.warning("topic %s is not added: one of its brokers is unknown", request.topic, extra=extra)

    def put_text(self, request: PutKvConfig, call: Call) -> Later:
        """Set a value of the KV configuration."""
        later = call.later()
        self._texts.change(lambda texts: texts.put(request.namespace, request.key, request.value), _settle(later))
        return later

    def delete_text(self, request: DeleteKvConfig, call: Call) -> Later:
        """Delete a value of the KV configuration."""
        later = call.later()
        self._texts.change(lambda texts: texts.delete(request.namespace, request.key), _settle(later))
        return later

    def get_text(self, request: GetKvConfig, _call: Call) -> Answer:
        """Answer a value of the KV configuration."""
        value = self._texts.value.get(request.namespace, request.key)
        if value is None:
            what = f"Namespace: {request.namespace} Key: {request.key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, {what}")
        return Answer(GetKvConfigAnswer(value=value))

    def list_texts(self, request: GetKvListByNamespace, _call: Call) -> Answer:
        """Answer all values of a namespace."""
        table = self._texts.value.table(request.namespace)
        if table is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {request.namespace}")
        return Answer(body=msgspec.json.encode(KVTable(table=dict(table))))

    def update_settings(self, _request: UpdateNamesrvConfig, call: Call) -> Later | None:
        """Change settings of the running server."""
        wanted = read_changes(call.body, self._routes.config)
        if not wanted:
            return None
        log.info("settings change asked for", extra={"keys": sorted(wanted), "by": str(call.peer.address)})
        later = call.later()
        self._changes.change(lambda changes: {**changes, **wanted}, _settle(later))
        return later

    def list_settings(self, _request: GetNamesrvConfig, _call: Call) -> Answer:
        """Answer all settings."""
        return Answer(body=listing(self._routes.config))


def _settle(later: Later) -> OnDone:
    def done(error: FireArrowError | None) -> None:
        if error is None:
            later.answer()
        elif isinstance(error, Refused):
            later.refuse(error.code, error.remark)
        else:
            later.refuse(ResponseCode.SYSTEM_ERROR, f"nothing was changed, because it could not be stored: {error}")

    return done


def _route_data(body: bytes) -> TopicRouteData:
    return server_body(body, TopicRouteData) if body else TopicRouteData()
