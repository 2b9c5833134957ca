"""Users of a master at its slave: who gets a copy, and what a slave does with one."""

import asyncio

import pytest

from firearrow.access.account_file import PATH, decode_accounts, encode_accounts
from firearrow.access.accounts import Accounts
from firearrow.access.copies import AccountCopies
from firearrow.access.rules import User, UserType
from firearrow.errors import RequestRefused
from firearrow.protocol.auth import Credentials
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.runtime.disk.stored import StoredValue
from firearrow.testing.sim.world import World
from tests.unit.access.servers import INNER, ROOT, Place, refusal, served

NO_PERMISSION = 16
OWNER = User("owner", "marker-secret", UserType.SUPER)
OTHER = User("other", "marker-other")


@pytest.mark.parametrize(("keys", "reason"), [(ROOT, "HmacSHA256"), (INNER, "HmacSHA256")])
def test_secrets_leave_for_servers_of_the_cluster_alone_and_never_in_the_clear(
    keys: tuple[str, str], reason: str
) -> None:
    async def main(place: Place) -> None:
        code, remark = await refusal(place.client(keys), CopyAccounts())
        assert (code, reason in remark) == (NO_PERMISSION, True)

    served(main)


def test_name_servers_copy_nothing() -> None:
    async def main(place: Place) -> None:
        code, _ = await refusal(place.client(INNER, place.names), CopyAccounts())
        assert code == 3

    served(main)


def at_a_slave(*copied: bytes, refused: RequestRefused | None = None) -> tuple[Accounts, bool]:
    """The accounts that count at a slave after these copies, and whether it counts as the master's."""

    async def main(world: World) -> tuple[Accounts, bool]:
        node = world.node("slave")
        stored = StoredValue(
            node.disk,
            PATH,
            Accounts({OWNER.name: OWNER}),
            encode=encode_accounts,
            decode=decode_accounts,
            limit_bytes=1 << 20,
            on_change=lambda _accounts: None,
            private=True,
        )
        copies = AccountCopies(stored, Credentials(OWNER.name, OWNER.secret), lambda: None)
        writing = asyncio.create_task(stored.write_changes())
        for data in copied:
            await copies.take(data)
        if refused is not None:
            copies.refused(refused)
        writing.cancel()
        again = StoredValue(
            node.disk,
            PATH,
            stored.value,
            encode=encode_accounts,
            decode=decode_accounts,
            limit_bytes=1 << 20,
            on_change=lambda _accounts: None,
            private=True,
        )
        await again.read()
        assert again.value == stored.value
        return stored.value, copies.has_taken

    return World(1).run(main)


def test_a_copy_replaces_what_was_known() -> None:
    master = Accounts({OWNER.name: OWNER, OTHER.name: OTHER})
    assert at_a_slave(encode_accounts(master)) == (master, True)
    revoked = Accounts({OWNER.name: OWNER})
    assert at_a_slave(encode_accounts(master), encode_accounts(revoked)) == (revoked, True)


@pytest.mark.parametrize(
    "data", [b"", b"firearrow-access 1 0\n{}", encode_accounts(Accounts()), encode_accounts(Accounts())[:-1]]
)
def test_what_is_no_copy_changes_nothing(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert at_a_slave(data) == (Accounts({OWNER.name: OWNER}), False)
    assert "stay as they are" in caplog.text
    assert "marker" not in caplog.text


def test_a_refusal_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    refusal = RequestRefused(16, "users are copied over mutual TLS alone")
    assert at_a_slave(refused=refusal) == (Accounts({OWNER.name: OWNER}), False)
    assert "mutual TLS" in caplog.text
