"""A slave's copy of its master's users and rules.

The copy holds secrets, so a master gives it to slaves alone: to the user with whose keys its own servers sign
(``innerClientAuthenticationCredentials``), for a signature that cannot be replayed, over a connection whose certificate
was checked, or from its own host. A slave asks only a server whose certificate it checks, or one of its own host, and
takes only a copy in which that user is Super and has the secret that the slave's settings say: nobody else can make
one. It takes the copy with the other tables of its master, under the same fencing (``broker.replication.metadata``),
and in an elected group it tells its master of a change only when the copy with that change is durable.
What is changed at a slave counts until the next copy: Apache's tools make every change at masters and slaves. Apache's
brokers do not copy users.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable

from firearrow.access.account_file import decode_accounts, encode_accounts
from firearrow.access.accounts import Accounts
from firearrow.access.denial import Denied, Reason
from firearrow.access.rules import User, UserStatus, UserType
from firearrow.errors import BadBody, FireArrowError, RequestRefused
from firearrow.protocol.auth import Credentials
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.disk.stored import StoredValue
from firearrow.runtime.network import Address, is_own_host

log = logging.getLogger(__name__)


class AccountCopies:
    """Gives copies to slaves, and takes those of a master. ``own`` is what the servers of the cluster sign with."""

    def __init__(
        self, accounts: StoredValue[Accounts], own: Credentials | None, asker: Callable[[], User | None]
    ) -> None:
        self._accounts = accounts
        self._own = own
        self._asker = asker
        self._said = ""
        self.checks_servers = False
        """Whether the certificates of servers that this one connects to are checked."""
        self.has_taken = False
        """Whether the users here are a master's."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handler of this class."""
        handlers.on(CopyAccounts, self.copy, urgent=True)

    def copy(self, _request: CopyAccounts, call: Call) -> Answer:
        """Return the file of users and rules."""
        asker = self._asker()
        if asker is None or self._own is None or asker.name != self._own.access_key:
            remark = "users are copied by servers of the cluster, which sign with innerClientAuthenticationCredentials"
            raise Denied(Reason.NOT_SUPER, remark)
        is_near = is_own_host(call.peer.address.host) and not call.peer.is_forwarded
        if not (call.peer.certificate_name or is_near):
            remark = (
                "users are copied over mutual TLS alone, because passwords are among them: set tls and client_tls, and "
                "give the slave a certificate with a common name"
            )
            raise Denied(Reason.NOT_SUPER, remark)
        if self not in call.peer.slots:
            call.peer.slots[self] = True
            log.info("users and rules are copied by %s", call.peer.address, extra={"peer": str(call.peer.address)})
        return Answer(body=encode_accounts(self._accounts.value))

    def may_ask(self, master: Address) -> bool:
        """Whether a master is asked for its users: one that proves who it is, or one on this host."""
        if self._own is not None and (self.checks_servers or is_own_host(master.host)):
            return True
        self._say(
            "users are copied with innerClientAuthenticationCredentials, from a master whose certificate is checked: "
            "set client_tls.enabled and client_tls.verify_server"
        )
        return False

    async def take(self, data: bytes) -> bool:
        """Let a master's users and rules count here; return whether they are durable."""
        try:
            accounts = decode_accounts(data)
        except BadBody as error:
            self._say(f"the master's users cannot be read: {error}")
            return False
        if not self._is_ours(accounts):
            self._say("the users of the master do not have innerClientAuthenticationCredentials as a Super user")
            return False
        self._said = ""
        if accounts == self._accounts.value:
            self.has_taken = True
            return True
        stored = asyncio.get_running_loop().create_future()
        self._accounts.change(lambda _old: accounts, lambda error: None if stored.done() else stored.set_result(error))
        return self._taken(await stored)

    def _is_ours(self, accounts: Accounts) -> bool:
        """Whether a copy holds the secret of the cluster's servers, and so was made by one of them."""
        own = self._own
        user = None if own is None else accounts.users.get(own.access_key)
        if own is None or user is None or (user.kind, user.status) != (UserType.SUPER, UserStatus.ENABLE):
            return False
        return hmac.compare_digest(user.secret.encode(), own.secret_key.encode())

    def _taken(self, error: FireArrowError | None) -> bool:
        if error is None:
            self.has_taken = True
            log.info("access changed: users and rules copied from the master")
        else:
            self._say(f"the master's users cannot be stored: {error}")
        return error is None

    def refused(self, refusal: RequestRefused) -> None:
        """Note that the master gives no copy."""
        if refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._say("the master has no users to copy: it is Apache's, or its access is off")
        else:
            self._say(f"the master's users are not copied: {refusal.remark}")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.warning("%s; users and rules here stay as they are", text)
