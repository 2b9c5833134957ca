"""A slave's copy of its master's users and rules.

The copy holds secrets, so a master gives it to slaves alone: to the user with whose keys its own servers sign
(``innerClientAuthenticationCredentials``), over a connection whose certificate was checked, or from its own host.
A slave takes it with the other tables of its master, under the same fencing (``broker.replication.metadata``). What is
changed at a slave counts until the next copy: Apache's tools make every change at masters and slaves. Apache's brokers
do not copy users.
"""

import logging
from collections.abc import Callable
from ipaddress import ip_address

from firearrow.access.account_file import decode_accounts, encode_accounts
from firearrow.access.accounts import Accounts
from firearrow.access.denial import Denied, Reason
from firearrow.access.rules import User
from firearrow.errors import BadBody, FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.disk.stored import Stored

log = logging.getLogger(__name__)


class AccountCopies:
    """Gives copies to slaves, and takes those of a master. ``own_user`` is who the servers of the cluster sign as."""

    def __init__(self, accounts: Stored[Accounts], own_user: str | None, asker: Callable[[], User | None]) -> None:
        self._accounts = accounts
        self._own_user = own_user
        self._asker = asker
        self._said = ""
        self.has_taken = False
        """Whether the users here are a master's."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handler of this class."""
        handlers.on(CopyAccounts, self.copy, urgent=True)

    def copy(self, _request: CopyAccounts, call: Call) -> Answer:
        """Return the file of users and rules."""
        asker = self._asker()
        if asker is None or asker.name != self._own_user:
            remark = "users are copied by servers of the cluster, which sign with innerClientAuthenticationCredentials"
            raise Denied(Reason.NOT_SUPER, remark)
        if not (call.peer.certificate_name or _is_own_host(call.peer.address.host)):
            remark = "users are copied over mutual TLS alone, because passwords are among them: set tls and client_tls"
            raise Denied(Reason.NOT_SUPER, remark)
        return Answer(body=encode_accounts(self._accounts.value))

    def take(self, data: bytes) -> None:
        """Let a master's users and rules count here, once they are stored."""
        try:
            accounts = decode_accounts(data)
        except BadBody as error:
            self._say(f"the master's users cannot be read: {error}")
            return
        if not accounts.users:
            self._say("the master has no user")
            return
        self._said = ""
        if accounts == self._accounts.value:
            self.has_taken = True
        else:
            self._accounts.change(lambda _old: accounts, self._taken)

    def _taken(self, error: FireArrowError | None) -> None:
        if error is None:
            self.has_taken = True
            log.info("access changed: users and rules copied from the master")
        else:
            self._say(f"the master's users cannot be stored: {error}")

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


def _is_own_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
