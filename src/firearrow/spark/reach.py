"""Requests to a cluster: TLS and accounts from options, and single requests that the client has no method for.

A request here opens a connection, asks once and closes it; callers retry if they need to.
"""

from collections.abc import Iterable
from typing import Any, Final

from firearrow import fastjson
from firearrow.client.access import Access
from firearrow.client.doors import system_doors
from firearrow.client.name_servers import NameServers, parse_name_servers
from firearrow.client.routes import MASTER_ID, Route, read_route
from firearrow.errors import RequestRefused, Unsupported
from firearrow.protocol.bodies.naming.route import ClusterInfo, KVTable, TopicRouteData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.admin.topic import GetTopicStatsInfo
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo, GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.runtime.tls_settings import ClientTls
from firearrow.spark.options import ConnectionOptions

_KNOWN_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST)})
OUR_MARK: Final = "firearrowInstance"
"""A name in the runtime info of FireArrow's brokers, and of no others."""


def client_tls(connection: ConnectionOptions) -> ClientTls:
    """Return the TLS settings."""
    return ClientTls(
        connection.tls,
        connection.tls_verify,
        connection.tls_ca_file,
        connection.tls_cert_file,
        connection.tls_key_file,
        connection.tls_key_password,
    )


def access_of(connection: ConnectionOptions) -> Access:
    """Return the keys of the account and TLS."""
    return Access(
        client_tls(connection),
        connection.access_key,
        connection.secret_key,
        connection.security_token,
        connection.signature_method,
    )


async def ask_names(connection: ConnectionOptions, request: Request[Any]) -> bytes:
    """Ask the name servers."""
    doors = system_doors()
    context, sign = access_of(connection).prepared(doors)
    caller = Caller(doors.network, tls=context, sign=sign)
    try:
        names = NameServers(caller, parse_name_servers(connection.name_server), doors.chance)
        return (await names.ask(request)).body
    finally:
        await caller.close()


async def route_of(connection: ConnectionOptions, topic: str) -> Route:
    """Return the present route of a topic."""
    request = GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)
    return read_route(topic, fastjson.decode(await ask_names(connection, request), TopicRouteData))


async def deleted_topics(connection: ConnectionOptions, places: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the topics, each with a broker, that the broker is there for and does not know.

    What a broker has is not deleted while the broker is away: it comes back with the broker.
    """
    table = fastjson.decode(await ask_names(connection, GetBrokerClusterInfo()), ClusterInfo).broker_addr_table or {}
    masters = {name: data.broker_addrs[MASTER_ID] for name, data in table.items() if MASTER_ID in data.broker_addrs}
    doors = system_doors()
    context, sign = access_of(connection).prepared(doors)
    caller = Caller(doors.network, tls=context, sign=sign)

    async def is_unknown(topic: str, broker: str) -> bool:
        request = GetTopicStatsInfo(topic=topic)
        reply = await caller.call(Address.parse(masters[broker]), request, accept=_KNOWN_OR_NOT)
        return reply.code == ResponseCode.TOPIC_NOT_EXIST

    try:
        return {(topic, name) for topic, name in places if name in masters and await is_unknown(topic, name)}
    finally:
        await caller.close()


async def require_checked_accounts(connection: ConnectionOptions, topics: Iterable[str]) -> None:
    """Raise if an account is given but a FireArrow broker does not check accounts: it would suggest security.

    A broker that checks accounts refuses this request, which is not signed. Apache's brokers without access control
    accept signed requests like any other, so clients can have accounts before brokers check them.
    """
    if not connection.access_key:
        return
    masters: dict[str, Address] = {}
    for topic in topics:
        found = (await route_of(connection, topic)).brokers
        masters.update({broker: numbers[MASTER_ID] for broker, numbers in found.items() if MASTER_ID in numbers})
    for broker, address in sorted(masters.items()):
        if await _lets_everybody_in(connection, address):
            raise Unsupported(
                f"options accessKey and secretKey are given, but broker {broker} does not check accounts: this "
                "version of FireArrow's broker lets everyone in. Leave both out, or use a broker that checks them"
            )


async def _lets_everybody_in(connection: ConnectionOptions, address: Address) -> bool:
    doors = system_doors()
    context, _ = Access(client_tls(connection)).prepared(doors)
    caller = Caller(doors.network, tls=context)
    try:
        answer = await caller.call(address, GetBrokerRuntimeInfo())
    except RequestRefused:
        return False
    finally:
        await caller.close()
    return OUR_MARK in fastjson.decode(answer.body, KVTable).table
