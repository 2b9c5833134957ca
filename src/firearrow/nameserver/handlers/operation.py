"""Answers to operators: permissions, topics, named texts, settings. Java: ``DefaultRequestProcessor``.

Texts and settings are answered once they are on disk.
"""

import logging
from typing import TypeVar

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody, FireArrowError
from firearrow.nameserver.changes import Changes, listing, read_changes
from firearrow.nameserver.kvconfig import KvConfig
from firearrow.nameserver.routes import Routes
from firearrow.nameserver.stored import OnDone, Stored
from firearrow.protocol.bodies.route import KVTable, TopicRouteData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.kvconfig import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvConfigAnswer,
    GetKvListByNamespace,
    PutKvConfig,
)
from firearrow.protocol.requests.route import (
    AddWritePermAnswer,
    AddWritePermOfBroker,
    DeleteTopicInNamesrv,
    RegisterTopicInNamesrv,
    WipeWritePermAnswer,
    WipeWritePermOfBroker,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later

log = logging.getLogger(__name__)

T = TypeVar("T")


class OperationHandlers:
    """What an operator asks a name server to do."""

    def __init__(self, routes: Routes, texts: Stored[KvConfig], changes: Stored[Changes]) -> None:
        self._routes = routes
        self._texts = texts
        self._changes = changes

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
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
        """Take the write permission from a broker's queues."""
        count = self._routes.topics.wipe_write(request.broker_name)
        log.info("write permission wiped", extra={"broker": request.broker_name, "topics": count})
        return Answer(WipeWritePermAnswer(wipe_topic_count=count))

    def add_write(self, request: AddWritePermOfBroker, _call: Call) -> Answer:
        """Give a broker's queues read and write permission."""
        count = self._routes.topics.add_write(request.broker_name)
        log.info("write permission added", extra={"broker": request.broker_name, "topics": count})
        return Answer(AddWritePermAnswer(add_topic_count=count))

    def delete_topic(self, request: DeleteTopicInNamesrv, _call: Call) -> None:
        """Forget a topic, in one cluster or in all."""
        self._routes.delete_topic(request.topic, request.cluster_name)
        log.info("topic deleted", extra={"topic": request.topic, "cluster": request.cluster_name})

    def register_topic(self, request: RegisterTopicInNamesrv, call: Call) -> None:
        """Add the queues of one topic; when a broker is unknown nothing is added, and nobody is told, as in Apache."""
        make = self._routes.topics.queues
        held = {
            queue.broker_name or "": make(
                queue.read_queue_nums, queue.write_queue_nums, queue.perm, queue.topic_sys_flag
            )
            for queue in _route_data(call.body).queue_datas
        }
        if not self._routes.add_topic(request.topic, held):
            log.warning("topic not added: a broker is unknown", extra={"topic": request.topic, "brokers": list(held)})

    def put_text(self, request: PutKvConfig, call: Call) -> Later:
        """Set a text."""
        later = call.later()
        self._texts.change(lambda texts: texts.put(request.namespace, request.key, request.value), _settle(later))
        return later

    def delete_text(self, request: DeleteKvConfig, call: Call) -> Later:
        """Forget a text."""
        later = call.later()
        self._texts.change(lambda texts: texts.delete(request.namespace, request.key), _settle(later))
        return later

    def get_text(self, request: GetKvConfig, _call: Call) -> Answer:
        """Read a text."""
        value = self._texts.value.get(request.namespace, request.key)
        if value is None:
            what = f"Namespace: {request.namespace} Key: {request.key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, {what}")
        return Answer(GetKvConfigAnswer(value=value))

    def list_texts(self, request: GetKvListByNamespace, _call: Call) -> Answer:
        """Read all texts of a namespace."""
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
        """Read all settings."""
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
    if not body:
        return TopicRouteData()
    try:
        return fastjson.decode(body, TopicRouteData)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
