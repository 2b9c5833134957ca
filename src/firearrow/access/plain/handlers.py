"""Answers 4.9's requests about accounts (50 to 54). Java (4.9): ``AdminBrokerProcessor``.

A change is answered once the file is written and in force. In 4.9 every account may change accounts, and reads their
secrets; here a request needs the cluster, as an admin has it, and a mask stands in the place of a secret.
"""

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from firearrow.access.accounts import MASK
from firearrow.access.change_gate import ChangeGate
from firearrow.access.plain.acl import PATH, PlainAccount, PlainAcl
from firearrow.access.plain.changes import (
    DELETE_FAILED,
    UPDATE_FAILED,
    WHITE_ADDRESSES_FAILED,
    delete_account,
    put_account,
    put_white_addresses,
)
from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.admin.auth import ClusterAclConfig, PlainAccessConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.auth import (
    DeleteAclConfig,
    GetBrokerClusterAclConfig,
    GetBrokerClusterAclInfo,
    GetBrokerClusterAclInfoAnswer,
    UpdateAndCreateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Handlers, Later

log = logging.getLogger(__name__)

How = Callable[[PlainAcl], PlainAcl]
Done = Callable[[FireArrowError | None], None]


class PlainFile(Protocol):
    """The file of accounts, as handlers use it."""

    @property
    def acl(self) -> PlainAcl:
        """The accounts in force."""
        ...

    def change(self, how: How, done: Done) -> None:
        """Change the file; ``done`` is called with the error, or with None when the change is in force."""
        ...


class PlainHandlers:
    """Reads and changes accounts for operators. The three texts say who the broker is."""

    def __init__(self, file: PlainFile, gate: ChangeGate, cluster: str, broker: str, address: str) -> None:
        self._file = file
        self._gate = gate
        self._cluster = cluster
        self._broker = broker
        self._address = address

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(UpdateAndCreateAclConfig, self.put_account, urgent=True)
        handlers.on(DeleteAclConfig, self.delete_account, urgent=True)
        handlers.on(UpdateGlobalWhiteAddrsConfig, self.put_white_addresses, urgent=True)
        handlers.on(GetBrokerClusterAclInfo, self.edition, urgent=True)
        handlers.on(GetBrokerClusterAclConfig, self.accounts, urgent=True)

    def put_account(self, request: UpdateAndCreateAclConfig, call: Call) -> Later:
        """Make or change an account."""
        return self._change(call, UPDATE_FAILED, lambda acl: put_account(acl, request))

    def delete_account(self, request: DeleteAclConfig, call: Call) -> Later:
        """Forget an account."""
        return self._change(call, DELETE_FAILED, lambda acl: delete_account(acl, request))

    def put_white_addresses(self, request: UpdateGlobalWhiteAddrsConfig, call: Call) -> Later:
        """Change the addresses from which everybody passes unasked."""
        return self._change(call, WHITE_ADDRESSES_FAILED, lambda acl: put_white_addresses(acl, request))

    def edition(self, _request: GetBrokerClusterAclInfo, _call: Call) -> Answer:
        """Return which edition of the file is in force."""
        edition = self._file.acl.edition
        version = {"counter": edition.number, "timestamp": edition.changed_ms}
        fields = GetBrokerClusterAclInfoAnswer(
            version=msgspec.json.encode(version).decode(),
            all_acl_file_version=msgspec.json.encode({PATH: version}).decode(),
            broker_name=self._broker,
            broker_addr=self._address,
            cluster_name=self._cluster,
        )
        return Answer(fields)

    def accounts(self, _request: GetBrokerClusterAclConfig, _call: Call) -> Answer:
        """Return all accounts, without their secrets."""
        acl = self._file.acl
        body = ClusterAclConfig(
            global_white_addrs=acl.global_white_remote_addresses or [],
            plain_access_configs=[_shown(account) for account in acl.accounts or ()],
        )
        return Answer(body=encode_body(body))

    def _change(self, call: Call, code: int, how: How) -> Later:
        later, what, by = call.later(), call.asked.heading.code, str(call.peer.address)

        def done(error: FireArrowError | None) -> None:
            if error is None:
                log.info("accounts of %s changed by request %d of %s", PATH, what, by, extra={"by": by, "code": what})
                self._gate.changed(call, SUCCESS)
            elif isinstance(error, Refused):
                later.refuse(error.code, error.remark)
            else:
                later.refuse(code, f"nothing was changed, because it could not be stored: {error}")

        self._file.change(how, done)
        return later


def _shown(account: PlainAccount) -> PlainAccessConfig:
    return PlainAccessConfig(
        access_key=account.access_key,
        admin=account.admin,
        default_group_perm=account.default_group_perm,
        default_topic_perm=account.default_topic_perm,
        group_perms=account.group_perms,
        secret_key=MASK,
        topic_perms=account.topic_perms,
        white_remote_address=account.white_remote_address,
    )
