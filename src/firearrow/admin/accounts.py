"""Users and rules of brokers, ours or Apache's 5.x. Java: ``CreateUserSubCommand`` and its neighbours.

Every broker keeps its own: a change goes to every member of a cluster, masters and slaves, one after the other.
"""

from collections.abc import Sequence

from firearrow import fastjson
from firearrow.admin.brokers import Brokers, Server
from firearrow.errors import NoSuchName
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.admin.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthDeleteAcl,
    AuthDeleteUser,
    AuthGetAcl,
    AuthGetUser,
    AuthListAcl,
    AuthListUser,
    AuthUpdateAcl,
    AuthUpdateUser,
)
from firearrow.runtime.network import Address


class AccountOperations:
    """Users and rules, by the broker that keeps them."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def keepers(self, cluster: str = "", broker: str = "") -> Sequence[Address]:
        """Return the brokers to ask: one by name or address, those of a cluster, or all. An address needs no route."""
        if ":" in broker:
            return [Address.parse(broker)]
        found = [
            member.at
            for member in await self._brokers.list()
            if (not cluster or member.cluster == cluster) and (not broker or member.name == broker)
        ]
        if not found:
            wanted = f"broker {broker!r}" if broker else f"cluster {cluster!r}" if cluster else "broker"
            raise NoSuchName(f"no {wanted} is registered; `firearrow broker list` shows those that are")
        return found

    async def users(self, at: Server, containing: str = "") -> list[UserInfo]:
        """Return the users whose names hold a text."""
        body = (await self._brokers.ask(at, AuthListUser(filter=containing or None))).body
        return fastjson.decode(body, list[UserInfo]) if body else []

    async def user(self, at: Server, name: str) -> UserInfo | None:
        """Return one user; None if there is none."""
        body = (await self._brokers.ask(at, AuthGetUser(username=name))).body
        return fastjson.decode(body, UserInfo) if body else None

    async def create_user(
        self, at: Server, name: str, password: str | None, *, kind: str | None = None, status: str | None = None
    ) -> None:
        """Make a user of a kind, "Normal" or "Super"."""
        info = UserInfo(username=name, password=password, user_type=kind, user_status=status)
        await self._brokers.ask(at, AuthCreateUser(username=name), encode_body(info))

    async def update_user(
        self, at: Server, name: str, *, password: str | None = None, kind: str | None = None, status: str | None = None
    ) -> None:
        """Change what is given of a user: the status is "enable" or "disable"."""
        info = UserInfo(username=name, password=password, user_type=kind, user_status=status)
        await self._brokers.ask(at, AuthUpdateUser(username=name), encode_body(info))

    async def delete_user(self, at: Server, name: str) -> None:
        """Forget a user, with its rules."""
        await self._brokers.ask(at, AuthDeleteUser(username=name))

    async def rules(self, at: Server, subject: str = "", resource: str = "") -> list[AclInfo]:
        """Return the rules whose subjects and resources hold these texts."""
        request = AuthListAcl(subject_filter=subject or None, resource_filter=resource or None)
        body = (await self._brokers.ask(at, request)).body
        return fastjson.decode(body, list[AclInfo]) if body else []

    async def rules_of(self, at: Server, subject: str) -> AclInfo | None:
        """Return the rules of one subject; None when it has none."""
        body = (await self._brokers.ask(at, AuthGetAcl(subject=subject))).body
        return fastjson.decode(body, AclInfo) if body else None

    async def put_rule(self, at: Server, subject: str, rule: PolicyEntry) -> None:
        """Give a subject a rule; one about the same resource is replaced."""
        await self.create_rules(at, AclInfo(subject=subject, policies=[Policy(policy_type="Custom", entries=[rule])]))

    async def create_rules(self, at: Server, rules: AclInfo) -> None:
        """Give a subject rules."""
        await self._brokers.ask(at, AuthCreateAcl(subject=rules.subject or ""), encode_body(rules))

    async def update_rules(self, at: Server, rules: AclInfo) -> None:
        """Change the rules of a subject that has some."""
        await self._brokers.ask(at, AuthUpdateAcl(subject=rules.subject or ""), encode_body(rules))

    async def delete_rules(self, at: Server, subject: str, resource: str | None = None) -> None:
        """Take the rule about a resource from a subject, or all its rules."""
        await self._brokers.ask(at, AuthDeleteAcl(subject=subject, resource=resource))
