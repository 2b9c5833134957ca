"""A group that elects its master, with mutual TLS alone between its brokers: changes of users and rules are not lost.

All brokers are on one host here, which would let users be copied without TLS, too; but these brokers refuse every
connection without TLS and a certificate, so each copy and each report goes over mutual TLS.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from firearrow import Message, Producer
from firearrow.admin.admin import Admin
from firearrow.client import ClientTls
from firearrow.errors import FireArrowError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.bodies.admin.auth import PolicyEntry
from firearrow.runtime.network import Address
from firearrow.testing.certificates import CertificateFiles, self_signed
from judges import fresh
from tests.integration.broker.replicas import Group

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

T = TypeVar("T")

OWNER = ("owner", "owner-secret")
INNER = ("inner", "inner-secret")
SELLER = ("seller", "seller-secret")
TOPIC = "sold"
RULE = PolicyEntry(resource=f"Topic:{TOPIC}", actions=["Pub"], decision="Allow")
PATIENCE_S = 240.0
AGAIN_S = 0.2


def settings_of(shown: CertificateFiles) -> dict[str, str]:
    """Settings of brokers that speak mutual TLS alone, and know users."""
    own = {"certificate_path": shown.certificate_path, "key_path": shown.key_path, "trust_path": shown.certificate_path}
    incoming = {"mode": "enforcing", "client_auth": "require", **own}
    outgoing = {"enabled": "true", "verify_server": "true", **own}
    inner = f'{{"accessKey":"{INNER[0]}","secretKey":"{INNER[1]}","signatureMethod":"HmacSHA256"}}'
    return {
        **{f"tls.{name}": value for name, value in incoming.items()},
        **{f"client_tls.{name}": value for name, value in outgoing.items()},
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f'{{"username":"{OWNER[0]}","password":"{OWNER[1]}"}}',
        "innerClientAuthenticationCredentials": inner,
        # An answer that waits for a broker that stands still is over before that broker leaves the in-sync set.
        "syncFlushTimeout": "3000",
    }


def client_tls(shown: CertificateFiles) -> ClientTls:
    """The certificates that clients show and trust."""
    certificate, key = shown
    return ClientTls(
        enabled=True, verify_server=True, trust_path=certificate, certificate_path=certificate, key_path=key
    )


def test_changes_of_users_outlive_the_master_of_a_group_with_mutual_tls(tmp_path: Path) -> None:
    shown = self_signed(str(tmp_path), name="shown")
    group = Group(settings=settings_of(shown))
    group.names.settings = {
        "tls.mode": "permissive",
        "tls.certificate_path": shown.certificate_path,
        "tls.key_path": shown.key_path,
    }
    with group:
        asyncio.run(asyncio.wait_for(Story(group, client_tls(shown)).play(), 3 * PATIENCE_S))


class Story:
    """One group, and an operator."""

    def __init__(self, group: Group, tls: ClientTls) -> None:
        self._group = group
        self._tls = tls
        access, secret = OWNER
        names = group.names.address
        method = SignatureMethod.SHA256
        self._admin = Admin(names, tls=tls, access_key=access, secret_key=secret, signature_method=method)

    async def play(self) -> None:
        """Change users and rules, with all brokers, with one that stands still, and before the master dies."""
        async with self._admin:
            await self.every_answer_is_at_every_broker()
            await self.no_answer_while_one_stands_still()
            await self.the_next_master_has_every_answer()

    async def every_answer_is_at_every_broker(self) -> None:
        """Nobody waits between an answer and the looks at the slaves."""
        master = self._at((await self._group.now()).master)
        for number in range(3):
            await self._make_user(master, f"user-{number}", "secret")
            for member in (await self._group.now()).iss:
                assert f"user-{number}" in await self._users(member), f"broker {member} lacks an answered user"

    async def no_answer_while_one_stands_still(self) -> None:
        """An answer that cannot be at every broker says that the outcome is not known."""
        state = await self._group.now()
        slave = next(number for number in state.iss if number != state.master)
        self._group.brokers[slave].pause()
        try:
            with pytest.raises(FireArrowError):
                await self._admin.accounts.create_user(self._at(state.master), "doubtful", "secret")
            assert slave in (await self._group.now()).iss, "the broker left the set before the answer: nothing is shown"
        finally:
            self._group.brokers[slave].resume()
        await asyncio.to_thread(self._group.until, lambda state: state.iss == (1, 2, 3), "three in sync again")

    async def the_next_master_has_every_answer(self) -> None:
        """A user and its rule are changed, and the master is killed at once."""
        accounts, before = self._admin.accounts, await self._group.now()
        master = self._at(before.master)
        await self._answered(lambda: self._admin.topics.create(TOPIC, broker=self._group.brokers[before.master].name))
        await self._make_user(master, *SELLER)
        await self._answered(lambda: accounts.put_rule(master, f"User:{SELLER[0]}", RULE))
        await self._answered(lambda: accounts.update_user(master, "user-0", status="disable"))
        self._group.brokers[before.master].kill()
        after = await asyncio.to_thread(self._group.until, lambda state: state.epoch > before.epoch, "another master")
        users = await self._answered(lambda: self._users(after.master))
        assert {SELLER[0], "user-1", "user-2"} <= set(users)
        assert users["user-0"] == "disable", "the answered change of a user is undone"
        rules = await self._answered(lambda: accounts.rules(self._at(after.master), f"User:{SELLER[0]}"))
        policies = [policy for info in rules for policy in info.policies or ()]
        assert [entry.resource for policy in policies for entry in policy.entries or ()] == [RULE.resource]
        await self._sell()

    async def _sell(self) -> None:
        """Send as the new user, whose keys and rule count at the next master."""
        access, secret = SELLER
        names = self._group.names.address
        seller = Producer(names, group=fresh("P"), tls=self._tls, access_key=access, secret_key=secret, retries=100)
        async with seller:
            await self._answered(lambda: seller.send(Message(TOPIC, b"paid")))

    def _at(self, number: int) -> Address:
        return Address.parse(self._group.brokers[number].address)

    async def _users(self, number: int) -> dict[str, str]:
        """The users of a broker, with their status."""
        users = await self._admin.accounts.users(self._at(number))
        return {str(user.username): str(user.user_status) for user in users}

    async def _make_user(self, master: Address, name: str, password: str) -> None:
        """Make a user; after an answer that left the outcome open, set the user's password again."""
        accounts = self._admin.accounts
        try:
            await accounts.create_user(master, name, password)
        except FireArrowError:
            await self._answered(lambda: accounts.update_user(master, name, password=password))

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: a busy machine may take longer, and a new master opens its port anew."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await ask()
                except FireArrowError:
                    await asyncio.sleep(AGAIN_S)
