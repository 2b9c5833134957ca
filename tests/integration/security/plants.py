"""Faults of the kinds that got their CVEs, to be put into our servers and clients: the replays must see them.

A function puts one fault into the process that calls it; `victim` calls it in a server before that starts.
"""

from itertools import islice
from typing import Any

from tests.integration.security import faulty_codecs


def put(where: object, name: str, value: object) -> None:
    """Put something else into the place of a function or a constant."""
    setattr(where, name, value)


def starts_filter_servers() -> None:
    """CVE-2023-33246 as it was: a setting becomes a part of a command line."""
    import subprocess

    from firearrow.broker.handlers.admin import broker_config
    from firearrow.broker.settings.changes import read_changes
    from firearrow.settings import parse_properties

    def read(body: bytes, settings: Any) -> Any:
        home = parse_properties(body.decode()).get("rocketmqHome")
        if home is not None:
            subprocess.run(f"sh {home}/bin/startfsrv.sh", shell=True, check=False, capture_output=True)
        return read_changes(body, settings)

    put(broker_config, "read_changes", read)


def every_key_may_change() -> None:
    """Apache's rule: what is not on a black list may change, and the black list is empty."""
    from firearrow.broker.settings import changes
    from firearrow.broker.settings.config import BrokerSettings
    from firearrow.settings.schema import leaves

    put(changes, "ALWAYS_BLACK", frozenset())
    put(changes, "CHANGEABLE", frozenset(leaf.apache_name for leaf in leaves(BrokerSettings)))


def name_server_goes_on_after_a_refusal() -> None:
    """CVE-2023-37582 after its first mend: the refusal is answered, and the change is made."""
    from firearrow.nameserver.handlers.operation import OperationHandlers
    from firearrow.protocol.refusal import Refused
    from firearrow.settings import parse_properties

    update = OperationHandlers.update_settings

    def go_on(self: Any, request: Any, call: Any) -> Any:
        try:
            return update(self, request, call)
        except Refused:
            wanted = parse_properties(call.body.decode())
            self._changes.change(lambda changes: {**changes, **wanted}, lambda _error: None)
            raise

    put(OperationHandlers, "update_settings", go_on)


def broker_goes_on_after_a_refusal() -> None:
    """The same in a broker."""
    from firearrow.broker.handlers.admin.broker_config import BrokerConfigHandlers
    from firearrow.protocol.refusal import Refused
    from firearrow.settings import parse_properties

    update = BrokerConfigHandlers.update

    def go_on(self: Any, request: Any, call: Any) -> Any:
        try:
            return update(self, request, call)
        except Refused:
            self._kept.add(parse_properties(call.body.decode()))
            self.file.changed(lambda _error: None)
            raise

    put(BrokerConfigHandlers, "update", go_on)


def writes_where_it_is_told() -> None:
    """CVE-2023-37582 as it was: configStorePath names the file that the rest is written to."""
    from firearrow.nameserver.handlers import operation
    from firearrow.settings import parse_properties

    def read(body: bytes, _config: Any) -> Any:
        wanted = parse_properties(body.decode())
        if "configStorePath" in wanted:
            with open(wanted["configStorePath"], "wb") as file:
                file.write(body)
        return {}

    put(operation, "read_changes", read)


def shows_passwords() -> None:
    """CVE-2024-23321 by the codes of 5.x, as Apache answers them."""
    from msgspec.structs import replace

    from firearrow.access import account_handlers
    from firearrow.access.bodies import user_info

    put(account_handlers, "user_info", lambda user: replace(user_info(user), password=user.secret))


def shows_secret_keys() -> None:
    """CVE-2024-23321 by the codes of 4.9."""
    from msgspec.structs import replace

    from firearrow.access.plain import handlers

    shown = handlers._shown
    put(handlers, "_shown", lambda account: replace(shown(account), secret_key=account.secret_key))


def shows_all_settings() -> None:
    """GET_BROKER_CONFIG lists the settings that hold secrets too."""
    from firearrow.broker.settings import changes

    put(changes, "SECRET", frozenset())


def takes_any_name() -> None:
    """CVE-2019-17572: names are not checked; what keeps files inside the directory is left alone."""
    from firearrow.model import names

    put(names, "topic_fault", lambda _name: None)
    put(names, "group_fault", lambda _name: None)
    put(names, "is_legal", lambda _name: True)


def restores_any_name() -> None:
    """Names in files are not checked."""
    from firearrow.model import names

    put(names, "is_legal", lambda _name: True)


def takes_any_path() -> None:
    """CVE-2019-17572 as it was: neither names nor paths are checked."""
    from firearrow.runtime.disk import real_disk
    from firearrow.store.queue import consume_queue

    takes_any_name()
    put(real_disk, "checked", lambda path: path)
    put(consume_queue, "is_storable", lambda _topic, _queue_id: True)


def allocates_what_is_announced() -> None:
    """CVE-2022-34917 (Kafka): a length from the wire is room in memory before its bytes are there."""
    from firearrow.protocol.frame import FRAME_MAX, FrameSplitter

    feed = FrameSplitter.feed

    def allocate(self: Any, data: bytes) -> Any:
        if not self.kept and len(data) >= 4:
            self.room = b"\1" * min(int.from_bytes(data[:4]), FRAME_MAX)
        return feed(self, data)

    put(FrameSplitter, "feed", allocate)


def believes_any_length() -> None:
    """A frame may be as long as it says."""
    from firearrow.protocol import frame

    make = frame.FrameSplitter.__init__

    def unlimited(self: Any, _limits: Any = None) -> None:
        make(self, frame.FrameLimits(frame_max=1 << 40, header_max=1 << 40))

    put(frame.FrameSplitter, "__init__", unlimited)


def inflates_without_limit() -> None:
    """CVE-2023-34455: a compressed body is inflated whole, and its size looked at afterwards."""
    from firearrow.record import compression

    put(compression, "_decompress_zlib", faulty_codecs.zlib_whole)
    put(compression, "_decompress_lz4", faulty_codecs.lz4_whole)
    put(compression, "_decompress_zstd", faulty_codecs.zstd_whole)


def inflates_registrations_without_limit() -> None:
    """The same where a name server reads a registration."""
    from firearrow.protocol.bodies.naming import registration

    put(registration, "_inflate", faulty_codecs.zlib_whole)


def a_code_forgot_the_check() -> None:
    """etcd's CVE-2026-33413: one request is answered without asking who asks."""
    from firearrow.access.guard import Guard
    from firearrow.protocol.requests.admin.config import GetBrokerConfig

    check = Guard.__call__

    def forget(self: Any, request: Any, call: Any, handler: Any) -> Any:
        return handler(request, call) if type(request) is GetBrokerConfig else check(self, request, call, handler)

    put(Guard, "__call__", forget)


def a_code_needs_nothing() -> None:
    """One request is declared to touch nothing: every known user may use it."""
    from firearrow.access.declared import DECLARED, Declaration
    from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker

    DECLARED[DeleteTopicInBroker] = Declaration()


def asks_about_the_first_alone() -> None:
    """etcd's CVE-2026-33343: of several things in one body only the first is asked about."""
    from msgspec.structs import replace

    from firearrow.access.declared import DECLARED

    def first(in_body: Any) -> Any:
        return lambda body: islice(in_body(body), 1)

    for kind, declaration in DECLARED.items():
        if declaration.in_body is not None:
            DECLARED[kind] = replace(declaration, in_body=first(declaration.in_body))


def believes_the_named_topic() -> None:
    """A request that names a stored message is believed about the topic of that message."""
    from msgspec.structs import replace

    from firearrow.access.declared import DECLARED

    for kind, declaration in DECLARED.items():
        DECLARED[kind] = replace(declaration, named=None)


def breaks_when_it_makes_a_user() -> None:
    """A handler raises what nobody expects: the log gets a traceback."""
    from firearrow.access.account_handlers import AccountHandlers

    def break_down(self: Any, request: Any, call: Any) -> Any:
        raise ZeroDivisionError(f"{self._accounts.value!r} {request!r} {call!r} {self._asker()!r}")

    put(AccountHandlers, "create_user", break_down)


def logs_users_whole() -> None:
    """Whoever makes a user is logged with everything that was sent."""
    import logging

    from firearrow.access.account_handlers import AccountHandlers

    create = AccountHandlers.create_user

    def log_and_create(self: Any, request: Any, call: Any) -> Any:
        logging.getLogger("firearrow.access").info("create %s: %r", request.username, call.body)
        return create(self, request, call)

    put(AccountHandlers, "create_user", log_and_create)


def remembers_names_of_fields() -> None:
    """G1 of the third review: the names of the fields of a request are a key of a cache before its signature counts."""
    from functools import lru_cache

    from firearrow.protocol import auth

    @lru_cache(1024)
    def ordered(names: tuple[str, ...]) -> list[str]:
        return [name for name in sorted(names) if name != auth.SIGNATURE]

    put(auth, "_signed", lambda fields: ordered(tuple(fields)))


def reads_the_dialect_slowly() -> None:
    """G2 of the third review: headers in fastjson's dialect go through a parser in Python, however many fields."""
    from firearrow import fastjson
    from firearrow.protocol import header_json

    put(header_json, "DIALECT_TEXTS_MAX", 1 << 30)
    put(fastjson, "quoted", fastjson.to_standard)


def reads_any_number_of_fields() -> None:
    """G2 of the third review: all fields of a compact header are read before anything is checked."""
    from firearrow.protocol import compact_decoder

    put(compact_decoder, "FIELDS_MAX", 1 << 30)


def keeps_what_visitors_send() -> None:
    """G3 of the third review: the metrics port reads on while answers are not taken, and keeps all of it."""
    from firearrow.remoting import http_port

    def received(self: Any, data: bytes) -> None:
        self._received += data
        if not self.is_waiting:
            self._next()

    def read_on(self: Any) -> None:
        self._transport.resume_reading()

    ask = http_port.HttpPort.ask

    def ask_and_read_on(self: Any, visitor: Any, asked: Any) -> None:
        ask(self, visitor, asked)
        read_on(visitor)

    put(http_port._Visitor, "data_received", received)
    put(http_port._Visitor, "pause_writing", read_on)
    put(http_port.HttpPort, "ask", ask_and_read_on)


def takes_stars_as_apache_does() -> None:
    """G4 of the third review: the prefix of a name ends at its first star."""
    from firearrow.access import bodies
    from firearrow.access.rules import ANY_NAME, Resource, ResourceKind, ResourcePattern, word

    def parse(text: str | None) -> Any:
        before, _, name = (text or "").partition(":")
        kind, prefix = word(ResourceKind, before), name.partition(ANY_NAME)[0]
        return (
            None
            if kind is None
            else Resource(kind, ResourcePattern.PREFIXED if prefix else ResourcePattern.ANY, prefix)
        )

    put(bodies, "parse_resource", parse)
    put(bodies, "star_fault", lambda _text: None)


def refusals_share_the_files_of_changes() -> None:
    """G6 of the third review: every refusal is a line of the one audit log."""
    from firearrow.access import witness
    from firearrow.access.refusal_rate import RefusalRate

    add = witness.Witness._add

    def add_to_one(self: Any, _audit: Any, *rest: Any, **more: Any) -> None:
        add(self, self.audit, *rest, **more)

    put(witness.Witness, "_add", add_to_one)
    put(RefusalRate, "passes", lambda *_rest: True)


def tells_unknown_users_apart() -> None:
    """G8 of the third review: a stranger reads whether a user exists."""
    from firearrow.access import guard
    from firearrow.access.denial import Denied, Reason

    compare = guard._compare

    def tell(user: Any, given: Any, signed_with: Any, name: str) -> None:
        if user is None:
            raise Denied(Reason.UNKNOWN_USER, f"User:{name} is not found.")
        compare(user, given, signed_with, name)

    put(guard, "_compare", tell)
