"""``createUser``, ``updateUser``, ``deleteUser``, ``getUser``, ``listUser``, ``copyUser``."""

from typing import Any, Final

from firearrow import fastjson
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import Given, Option, Verb
from firearrow.protocol.bodies.admin.auth import UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.auth import (
    AuthCreateUser,
    AuthDeleteUser,
    AuthGetUser,
    AuthListUser,
    AuthUpdateUser,
)

FORM: Final = "%-16s  %-22s  %-22s  %-22s"


async def all_members(session: Session, given: Given) -> list[str]:
    """Return the broker of -b, else all members of the cluster of -c."""
    return [given.text("b")] if given.has("b") else (await session.cluster()).members(given.text("c"))


async def masters(session: Session, given: Given) -> list[str]:
    """Return the broker of -b, else the masters of the cluster of -c."""
    return [given.text("b")] if given.has("b") else (await session.cluster()).masters(given.text("c"))


def _user(given: Given) -> UserInfo:
    return UserInfo(
        username=given.text("u"),
        password=given.text("p") or None,
        user_type=given.text("t") or None,
        user_status=given.text("s") or None,
    )


async def tell_members(session: Session, given: Given, told: str, request: Request[Any], body: bytes = b"") -> None:
    """Send a change to the broker of -b, or to all members of the cluster of -c, and say so."""
    for address in await all_members(session, given):
        await session.ask(address, request, body)
        session.line(f"{told} to %s success.", address)


async def create_user(session: Session, given: Given) -> None:
    """Make a user."""
    request = AuthCreateUser(username=given.text("u"))
    await tell_members(session, given, "create user", request, encode_body(_user(given)))


async def update_user(session: Session, given: Given) -> None:
    """Change a user."""
    request = AuthUpdateUser(username=given.text("u"))
    await tell_members(session, given, "update user", request, encode_body(_user(given)))


async def delete_user(session: Session, given: Given) -> None:
    """Forget a user."""
    await tell_members(session, given, "delete user", AuthDeleteUser(username=given.text("u")))


async def _find(session: Session, address: str, name: str) -> UserInfo | None:
    body = (await session.ask(address, AuthGetUser(username=name))).body
    return fastjson.decode(body, UserInfo) if body else None


async def _list(session: Session, address: str, wanted: str) -> list[UserInfo]:
    body = (await session.ask(address, AuthListUser(filter=wanted or None))).body
    return fastjson.decode(body, list[UserInfo]) if body else []


def _print_users(session: Session, users: list[UserInfo]) -> None:
    session.line(FORM, "#UserName", "#Password", "#UserType", "#UserStatus")
    for user in users:
        session.line(FORM, user.username, user.password, user.user_type, user.user_status)


async def get_user(session: Session, given: Given) -> None:
    """Print a user."""
    for address in await masters(session, given):
        user = await _find(session, address, given.text("u"))
        if user is not None:
            _print_users(session, [user])
            return


async def list_user(session: Session, given: Given) -> None:
    """Print all users."""
    for address in await masters(session, given):
        users = await _list(session, address, given.text("f"))
        if users:
            _print_users(session, users)
            if not given.has("b"):
                session.line("get user from %s success.", address)
            return


async def copy_user(session: Session, given: Given) -> None:
    """Copy users from a broker to another."""
    source, target = given.text("f"), given.text("t")
    names = [name.strip() for name in given.text("u").split(",") if name.strip()]
    users = [await _find(session, source, name) for name in names] if names else await _list(session, source, "")
    for user in users:
        if user is None:
            continue
        name = user.username or ""
        known = await _find(session, target, name) is not None
        request = AuthUpdateUser(username=name) if known else AuthCreateUser(username=name)
        await session.ask(target, request, encode_body(user))
        session.line("copy user of %s from %s to %s success.", name, source, target)


def place(verb: str) -> tuple[Option, Option]:
    """Return the options that name a cluster or a broker."""
    return (Option("c", "clusterName", f"{verb} which cluster"), Option("b", "brokerAddr", f"{verb} which broker"))


def _name(verb: str) -> Option:
    return Option("u", "username", f"the username of user to {verb}.", required=True)


VERBS: Final = (
    Verb("createUser", "Create user to cluster.",
         (*place("create user to"), _name("create"),
          Option("p", "password", "the password of user to create", required=True),
          Option("t", "userType", "the userType of user to create")),
         create_user, either=(("b", "c"),)),
    Verb("updateUser", "Update user to cluster.",
         (*place("update user to"), _name("update"),
          Option("p", "password", "the password of user to update"),
          Option("t", "userType", "the userType of user to update"),
          Option("s", "userStatus", "the userStatus of user to update")),
         update_user, either=(("b", "c"), ("p", "s", "t"))),
    Verb("deleteUser", "Delete user from cluster.", (*place("delete user from"), _name("delete")), delete_user,
         either=(("b", "c"),)),
    Verb("getUser", "Get user from cluster.",
         (*place("get user for"), Option("u", "username", "the username of user to get")), get_user,
         either=(("b", "c"),)),
    Verb("listUser", "List user from cluster.",
         (*place("list user for"), Option("f", "filter", "the filter to list users")), list_user,
         either=(("b", "c"),)),
    Verb("copyUser", "Copy user to cluster.",
         (Option("f", "fromBroker", "the source broker that the users copy from", required=True),
          Option("t", "toBroker", "the target broker that the users copy to", required=True),
          Option("u", "usernames", "the username list of user to copy.")),
         copy_user),
)  # fmt: skip
