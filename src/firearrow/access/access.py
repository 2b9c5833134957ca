"""Access at one server: its users on disk, the guard before its handlers, and the requests that change users.

Off by default, as in Apache: then nothing of this package is asked for any request.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from firearrow.access.account_file import BYTES_MAX, PATH, decode_accounts, encode_accounts
from firearrow.access.account_handlers import AccountHandlers
from firearrow.access.accounts import Accounts
from firearrow.access.change_gate import ChangeGate, OpenGate
from firearrow.access.copies import AccountCopies
from firearrow.access.guard import Guard, StoredMessages
from firearrow.access.plain.access import PlainAccess
from firearrow.access.plain.acl import PATH as PLAIN_ACL
from firearrow.access.plain.acl import add_accounts, read_plain_acl
from firearrow.access.rules import User
from firearrow.access.settings import AccessConfig, check_access, first_users, inner_credentials
from firearrow.access.witness import witness_of
from firearrow.errors import SettingsError
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.disk.stored import StoredValue
from firearrow.runtime.network import is_own_host

log = logging.getLogger(__name__)


class AccessControl:
    """Users, rules and the guard of a server that is in ``cluster``; ``disk`` is the directory of its files."""

    def __init__(self, config: AccessConfig, disk: Disk, cluster: str, clock: Clock, path: str = PATH) -> None:
        self._config = config
        self.on_change: Callable[[], None] | None = None
        """Called when users or rules have changed."""
        self.gate: ChangeGate = OpenGate()
        """Sends the success of a change; a broker puts its own gate here before `before`."""
        self.witness: Final = witness_of(config, disk, clock)
        self._disk = disk
        self.accounts: Final[StoredValue[Accounts]] = StoredValue(
            disk,
            path,
            Accounts(),
            encode=encode_accounts,
            decode=decode_accounts,
            limit_bytes=BYTES_MAX,
            on_change=self._changed,
            private=True,
        )
        self.guard: Final = Guard(config, self.accounts, cluster, self.witness, clock)
        self.copies: Final = AccountCopies(self.accounts, inner_credentials(config), lambda: self.guard.asker)

    def _changed(self, _accounts: Accounts) -> None:
        if self.on_change is not None:
            self.on_change()

    async def open(self) -> None:
        """Load the users, and make the first ones; raise ``SettingsError`` when nobody could be let in."""
        check_access(self._config)
        await self.accounts.read()
        accounts = self.accounts.value
        if self._config.migrate_auth_from_v1_enabled and self._disk.exists(PLAIN_ACL):
            accounts = add_accounts(accounts, read_plain_acl(await self._disk.read_whole(PLAIN_ACL)))
            log.info("accounts of plain_acl.yml are users", extra={"users": len(accounts.users)})
        for user in first_users(self._config):
            if user.name not in accounts.users:
                accounts = _with(accounts, user)
                log.info("user made from the settings", extra={"user": user.name})
            elif accounts.users[user.name].secret != user.secret:
                log.warning("%s has another password than the settings say: the stored one counts", user.subject)
        if not accounts.users:
            raise SettingsError(
                "authenticationEnabled=true and there is no user, so nobody could be let in: set "
                'initAuthenticationUser={"username":"...","password":"..."}'
            )
        if accounts is not self.accounts.value:
            await self.accounts.put(accounts)
        await self.witness.open()

    def before(
        self, handlers: Handlers, stored: StoredMessages | None = None, _broker: str = "", _address: str = ""
    ) -> Handlers:
        """Return the handlers behind the guard, with those for users and rules; ``stored`` as for `Guard`."""
        asker, are_copies = lambda: self.guard.asker, lambda: self.copies.has_taken
        AccountHandlers(self.accounts, asker, are_copies, self.gate).add_to(handlers)
        self.guard.stored = stored
        return handlers.guarded(self.guard, self.guard.passes_sends)

    async def run(self) -> None:
        """Write changes of users and rules, and the audit log, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.accounts.write_changes())
            group.create_task(self.witness.run())


def _with(accounts: Accounts, user: User) -> Accounts:
    try:
        return accounts.create_user(user)
    except Refused as refusal:
        raise SettingsError(f"the user of initAuthenticationUser cannot be made: {refusal.remark}") from None


def access_of(
    config: AccessConfig, disk: Disk, cluster: str, clock: Clock, path: str = PATH
) -> AccessControl | PlainAccess:
    """Return the access that the settings ask for: users of our file, or accounts of 4.9's."""
    if config.acl_enable:
        return PlainAccess(config, disk, cluster, clock)
    return AccessControl(config, disk, cluster, clock, path)


def open_to_all(config: AccessConfig, what: str, bind_address: str) -> bool:
    """Return whether access is off; warn of it when the server listens beyond its own host."""
    if config.is_on:
        return False
    if not is_own_host(bind_address):
        log.warning(
            "access is off: everybody who reaches this %s may do everything; set authenticationEnabled=true", what
        )
    return True
