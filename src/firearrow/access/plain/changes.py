"""Changes of ``plain_acl.yml`` that operators ask for: a value that changes into another value, and its text. Pure.

Java (4.9): ``PlainPermissionManager.updateAccessConfig`` and neighbours; the words of refusals are theirs, without the
secret. Every verb returns the accounts after the change or raises ``Refused``.
"""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from firearrow.access.accounts import MASK, Accounts
from firearrow.access.plain.acl import PATH, AclEdition, PlainAccount, PlainAcl, add_accounts
from firearrow.errors import SettingsError
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.auth import (
    DeleteAclConfig,
    UpdateAndCreateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)

UPDATE_FAILED: Final = 209
DELETE_FAILED: Final = 210
WHITE_ADDRESSES_FAILED: Final = 211
"""Response codes of 4.9; 5.x has other meanings for these numbers."""
KEY_LENGTH_MIN: Final = 6

_ADDRESSES: Final = re.compile(r"[0-9a-fA-F.:*{},\- ]*")


def put_account(acl: PlainAcl, request: UpdateAndCreateAclConfig) -> PlainAcl:
    """Make or change an account: what is not given stays."""
    name, secret = request.access_key, request.secret_key or ""
    if min(len(name), len(secret)) <= KEY_LENGTH_MIN or secret == MASK:
        remark = f"The accessKey={name} and secretKey={MASK} cannot be null and length should longer than 6"
        raise Refused(UPDATE_FAILED, remark)
    _check_addresses(UPDATE_FAILED, request.white_remote_address or "")
    old = next((account for account in acl.accounts or () if account.access_key == name), PlainAccount(name, secret))
    new = replace(old, secret_key=secret, admin=request.admin, **_given(request))
    others = [account for account in acl.accounts or () if account.access_key != name]
    return _checked(UPDATE_FAILED, acl, replace(acl, accounts=[*others, new]))


def _given(request: UpdateAndCreateAclConfig) -> dict[str, object]:
    """Return the members of an account that a request gives, besides secret and admin."""
    given = {
        "white_remote_address": request.white_remote_address,
        "default_topic_perm": request.default_topic_perm or None,
        "default_group_perm": request.default_group_perm or None,
        "topic_perms": None if request.topic_perms is None else _words(request.topic_perms),
        "group_perms": None if request.group_perms is None else _words(request.group_perms),
    }
    return {member: value for member, value in given.items() if value is not None}


def delete_account(acl: PlainAcl, request: DeleteAclConfig) -> PlainAcl:
    """Forget an account."""
    left = [account for account in acl.accounts or () if account.access_key != request.access_key]
    if len(left) == len(acl.accounts or ()):
        remark = f"The accesskey[{request.access_key}] corresponding to accessConfig has been deleted failed."
        raise Refused(DELETE_FAILED, remark)
    return _checked(DELETE_FAILED, acl, replace(acl, accounts=left))


def put_white_addresses(acl: PlainAcl, request: UpdateGlobalWhiteAddrsConfig) -> PlainAcl:
    """Change the addresses from which everybody passes unasked."""
    if request.acl_file_full_path and not request.acl_file_full_path.endswith(PATH):
        raise Refused(WHITE_ADDRESSES_FAILED, f"this broker has one file of accounts, {PATH}: leave the path out")
    _check_addresses(WHITE_ADDRESSES_FAILED, request.global_white_addrs)
    return _checked(
        WHITE_ADDRESSES_FAILED, acl, replace(acl, global_white_remote_addresses=_words(request.global_white_addrs))
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text.strip() else []


def _check_addresses(code: int, text: str) -> None:
    if _ADDRESSES.fullmatch(text) is None:
        raise Refused(code, "a white list has addresses such as 10.0.0.7, 10.0.0.*, 10.0.1-5.*, divided by commas")


def _checked(code: int, old: PlainAcl, new: PlainAcl) -> PlainAcl:
    try:
        add_accounts(Accounts(), new)
    except SettingsError as error:
        raise Refused(code, str(error)) from None
    if _admins(old) and not _admins(new):
        raise Refused(code, "this is the last account with admin: nobody could change accounts any more")
    return new


def _admins(acl: PlainAcl) -> int:
    return sum(account.admin for account in acl.accounts or ())


def next_edition(acl: PlainAcl, now_ms: int) -> PlainAcl:
    """Return the accounts with the edition that follows, as 4.9 counts changes from outside."""
    return replace(acl, data_version=[AclEdition(str(acl.edition.number + 1), str(now_ms))])


def plain_acl_text(acl: PlainAcl) -> bytes:
    """Return the text of a file; comments of the file before are not in it, as with 4.9."""
    import yaml  # of the extra server

    accounts = [
        {member: value for member, value in msgspec.to_builtins(account).items() if value is not None}
        for account in acl.accounts or ()
    ]
    members: dict[str, object] = {"globalWhiteRemoteAddresses": acl.global_white_remote_addresses or []}
    members["accounts"] = accounts
    edition = acl.edition
    members["dataVersion"] = [{"counter": edition.number, "timestamp": edition.changed_ms}]
    text: str = yaml.safe_dump(members, sort_keys=False, allow_unicode=True, width=1 << 20)
    return text.encode()
