"""The file of users and rules: JSON behind a line with its checksum. Pure.

    firearrow-access 1 <SHA-256 of the rest, hex>
    {"users": [...], "rules": [...]}

Signatures are made with the secrets themselves, so the file holds them: it is readable by its owner alone, written
whole or not at all, and never read in part: a file that has changed outside is refused. Apache keeps users in RocksDB.
"""

import hashlib
from typing import Final

import msgspec

from firearrow.access.accounts import Accounts
from firearrow.access.rules import Rules, User
from firearrow.errors import BadBody

PATH: Final = "config/access.json"
BYTES_MAX: Final = 16 << 20

_HEAD: Final = b"firearrow-access 1 "


class _UserRules(msgspec.Struct, frozen=True):
    user: str
    rules: Rules


class _AccountContents(msgspec.Struct, frozen=True):
    users: list[User]
    rules: list[_UserRules]


_DECODER: Final = msgspec.json.Decoder(_AccountContents)


def encode_accounts(accounts: Accounts) -> bytes:
    """Return the bytes of the file."""
    rules = [_UserRules(name, rules) for name, rules in accounts.rules.items()]
    body = msgspec.json.encode(_AccountContents(list(accounts.users.values()), rules))
    return _HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode_accounts(data: bytes) -> Accounts:
    """Return the accounts in a file; raise ``BadBody``, without a part of the file in its text."""
    head, _, body = data.partition(b"\n")
    if head != _HEAD + hashlib.sha256(body).hexdigest().encode():
        raise BadBody("it is not a file of users, or it has been changed or damaged")
    try:
        contents = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadBody("its users cannot be read") from None
    users = {user.name: user for user in contents.users}
    return Accounts(users, {kept.user: kept.rules for kept in contents.rules if kept.user in users})
