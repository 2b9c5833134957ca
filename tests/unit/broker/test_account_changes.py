"""Users and rules of an elected group: a change that was answered is at the next master, where replicas copy users."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.access import copies
from firearrow.broker.replication.metadata import Metadata
from firearrow.errors import RequestRefused, RequestTimedOut
from firearrow.protocol.auth import Credentials, Signer
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthDeleteUser,
    AuthListAcl,
    AuthListUser,
)
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.access.servers import CONFIG, ROOT
from tests.unit.broker.test_failover_group import Group
from tests.unit.broker.whole import PORT, Client, Names

Scenario = Callable[[Group, Client, int], Coroutine[Any, Any, None]]


def run(scenario: Scenario, *, copies_users: bool = True) -> None:
    """Run a group with access on; its members copy users as those of one host do, without mutual TLS."""

    async def body(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=False)
        for member in group.members.values():
            replication = replace(member.settings.replication, ha_allowed_addresses="10.0.0.0/8")
            member.settings = replace(member.settings, access=CONFIG, replication=replication)
        operator = world.node("operator")
        group.caller = Caller(operator.network, sign=Signer(Credentials(*ROOT)))
        group.start()
        await group.until_in_sync(3)
        await group.send_until(1)
        assert group.state is not None
        master = group.state.master
        client = Client(operator, Address(group.members[master].node.host, PORT))
        client.caller = group.caller
        await scenario(group, client, master)

    with pytest.MonkeyPatch.context() as patch:
        if copies_users:
            patch.setattr(copies, "is_own_host", lambda _host: True)
        World(3).run(body)


async def make(client: Client, name: str) -> None:
    body = encode_body(UserInfo(password=f"marker of {name}"))
    await client.ask(AuthCreateUser(username=name), body, timeout_ms=9_000)


async def allow(client: Client, name: str) -> None:
    entry = PolicyEntry(resource="Topic:T", actions=["Pub"], decision="Allow")
    info = AclInfo(subject=f"User:{name}", policies=[Policy(policy_type="Custom", entries=[entry])])
    await client.ask(AuthCreateAcl(subject=f"User:{name}"), encode_body(info))


async def known(client: Client) -> bytes:
    """The users and rules of a broker, as it shows them."""
    users, rules = await client.ask(AuthListUser()), await client.ask(AuthListAcl())
    return bytes(users.body) + bytes(rules.body)


def change_users_and_lose_the_master() -> None:
    """An operator makes users and a rule and revokes a user; the master dies at its last answer."""

    async def scenario(group: Group, client: Client, master: int) -> None:
        await make(client, "revoked")
        await make(client, "stays")
        await allow(client, "stays")
        await client.ask(AuthDeleteUser(username="revoked"))
        await group.members[master].node.crash()
        await group.send_until(1)
        assert group.state is not None
        client.broker = Address(group.members[group.state.master].node.host, PORT)
        found = await known(client)
        assert b'"stays"' in found, "a user is lost"
        assert b"Topic:T" in found, "a rule is lost"
        assert b'"revoked"' not in found, "a revoked user is back"

    run(scenario)


def test_users_and_rules_that_were_answered_are_at_the_next_master() -> None:
    change_users_and_lose_the_master()


def test_a_change_of_users_is_not_answered_with_success_while_a_replica_does_not_copy_it() -> None:
    async def no_copy(_self: Metadata, _master: Address) -> bytes | None:
        raise RequestTimedOut("the users are not told")

    async def scenario(group: Group, client: Client, _master: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Metadata, "_accounts_of", no_copy)
            with pytest.raises(RequestRefused, match="not known whether it outlives") as refused:
                await make(client, "half")
            assert refused.value.code == ResponseCode.SYSTEM_ERROR
        await group.until_in_sync(3)
        await make(client, "whole")

    run(scenario)


def test_a_replica_that_copies_no_users_is_not_waited_for() -> None:
    async def scenario(group: Group, client: Client, master: int) -> None:
        await make(client, "alone")
        slave = next(member.node for number, member in group.members.items() if number != master)
        await asyncio.sleep(5)
        client.broker = Address(slave.host, PORT)
        assert b'"alone"' not in await known(client)

    run(scenario, copies_users=False)
