"""Access by ``plain_acl.yml``, the accounts of 4.9: read at the start, and again whenever the file changes.

A changed file that cannot be read, or that names nobody, is told in the log and changes nothing. Java:
``PlainPermissionManager`` with its ``AclFileWatchService``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from firearrow.access.accounts import Accounts
from firearrow.access.change_gate import ChangeGate, OpenGate
from firearrow.access.guard import Guard, StoredMessages
from firearrow.access.plain.acl import PATH, PlainAcl, add_accounts, read_plain_acl
from firearrow.access.plain.changes import next_edition, plain_acl_text
from firearrow.access.plain.handlers import Done, How, PlainHandlers
from firearrow.access.settings import AccessConfig, check_access
from firearrow.access.witness import witness_of
from firearrow.errors import DiskError, FireArrowError, SettingsError
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk

LOOK_S: Final = 0.5

log = logging.getLogger(__name__)


class PlainAccess:
    """Users, rules and white lists of a file, and the guard that asks them."""

    def __init__(self, config: AccessConfig, disk: Disk, cluster: str, clock: Clock) -> None:
        self._config = config
        self.on_change: Callable[[], None] | None = None
        """Called when accounts have changed."""
        self.gate: ChangeGate = OpenGate()
        """Sends the success of a change; a broker puts its own gate here before `before`."""
        self._disk = disk
        self.acl = PlainAcl()
        self._cluster = cluster
        self._clock = clock
        self._changes: deque[tuple[How, Done]] = deque()
        self._wanted = asyncio.Event()
        self._seen = (0, 0)
        self.value = Accounts()
        self.witness: Final = witness_of(config, disk, clock)
        self.guard: Final = Guard(
            config, self, cluster, self.witness, clock, lambda source, name: self.acl.is_white(source, name)
        )

    async def open(self) -> None:
        """Read the file; raise ``SettingsError`` when there is none, or when it lets nobody in."""
        check_access(self._config)
        if not self._disk.exists(PATH):
            raise SettingsError(f"aclEnable=true and there is no {PATH} in the server's directory: write one")
        await self._read()
        await self.witness.open()

    async def _read(self) -> None:
        self._seen = self._stamp()
        acl = read_plain_acl(await self._disk.read_whole(PATH))
        accounts = add_accounts(Accounts(), acl)
        if not accounts.users and not acl.global_white_remote_addresses:
            raise SettingsError(f"{PATH} has no account, so nobody could be let in")
        self.acl, self.value = acl, accounts
        if self.on_change is not None:
            self.on_change()
        white = sum(account.white_remote_address is not None for account in acl.accounts or ())
        if white or acl.global_white_remote_addresses:
            log.warning("white lists of %s let requests pass from some addresses without a signature", PATH)
        log.info("accounts of %s are in force", PATH, extra={"accounts": len(accounts.users)})

    def _stamp(self) -> tuple[int, int]:
        status = self._disk.status(PATH)
        return status.modified_ms, status.size

    def before(
        self, handlers: Handlers, stored: StoredMessages | None = None, broker: str = "", address: str = ""
    ) -> Handlers:
        """Return the handlers behind the guard, with those for accounts; ``stored`` as for `Guard`."""
        PlainHandlers(self, self.gate, self._cluster, broker, address).add_to(handlers)
        self.guard.stored = stored
        return handlers.guarded(self.guard, self.guard.passes_sends)

    async def run(self) -> None:
        """Read the file again when it has changed, and write the audit log, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._write())
            group.create_task(self.witness.run())

    # ---- changes from outside

    def change(self, how: How, done: Done) -> None:
        """Change the file; ``done`` is called with the error, or with None when the change is in force."""
        self._changes.append((how, done))
        self._wanted.set()

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._changes:
                how, done = self._changes.popleft()
                try:
                    await self._make(how)
                except FireArrowError as error:
                    done(error)
                else:
                    done(None)

    async def _make(self, how: How) -> None:
        if self._stamp() != self._seen:
            await self._read()
        changed = how(self.acl)
        await self._disk.replace(PATH, plain_acl_text(next_edition(changed, self._clock.now_ms())), private=True)
        await self._read()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if self._stamp() != self._seen:
                    await self._read()
            except (SettingsError, DiskError) as error:
                log.warning("%s has changed and is not in force: %s", PATH, error, extra={"reason": str(error)})
