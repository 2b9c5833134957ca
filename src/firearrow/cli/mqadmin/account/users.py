"""``createUser``, ``updateUser``, ``deleteUser``, ``getUser``, ``listUser``, ``copyUser``."""

from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.cli.mqadmin.places import masters, members
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.protocol.bodies.admin.auth import UserInfo

FORM: Final = "%-16s  %-22s  %-22s  %-22s"


def _details(given: OptionValues) -> dict[str, str | None]:
    return {"password": given.text("p") or None, "kind": given.text("t") or None, "status": given.text("s") or None}


async def tell_members(
    session: Session, given: OptionValues, told: str, change: Callable[[str], Awaitable[None]]
) -> None:
    """Change the broker of -b, or all members of the cluster of -c, and say so."""
    for address in await members(session, given):
        await change(address)
        session.line(f"{told} to %s success.", address)


async def create_user(session: Session, given: OptionValues) -> None:
    """Make a user."""
    create, details = session.admin.accounts.create_user, _details(given)
    await tell_members(session, given, "create user", lambda at: create(at, given.text("u"), **details))


async def update_user(session: Session, given: OptionValues) -> None:
    """Change a user."""
    update, details = session.admin.accounts.update_user, _details(given)
    await tell_members(session, given, "update user", lambda at: update(at, given.text("u"), **details))


async def delete_user(session: Session, given: OptionValues) -> None:
    """Forget a user."""
    delete = session.admin.accounts.delete_user
    await tell_members(session, given, "delete user", lambda at: delete(at, given.text("u")))


def _print_users(session: Session, users: list[UserInfo]) -> None:
    session.line(FORM, "#UserName", "#Password", "#UserType", "#UserStatus")
    for user in users:
        session.line(FORM, user.username, user.password, user.user_type, user.user_status)


async def get_user(session: Session, given: OptionValues) -> None:
    """Print a user."""
    for address in await masters(session, given):
        user = await session.admin.accounts.user(address, given.text("u"))
        if user is not None:
            _print_users(session, [user])
            return


async def list_user(session: Session, given: OptionValues) -> None:
    """Print all users."""
    for address in await masters(session, given):
        users = await session.admin.accounts.users(address, given.text("f"))
        if users:
            _print_users(session, users)
            if not given.has("b"):
                session.line("get user from %s success.", address)
            return


async def copy_user(session: Session, given: OptionValues) -> None:
    """Copy users from a broker to another."""
    source, target, accounts = given.text("f"), given.text("t"), session.admin.accounts
    names = parts(given.text("u"))
    users = [await accounts.user(source, name) for name in names] if names else await accounts.users(source)
    for user in filter(None, users):
        name = user.username or ""
        known = await accounts.user(target, name) is not None
        put = accounts.update_user if known else accounts.create_user
        await put(target, name, password=user.password, kind=user.user_type, status=user.user_status)
        session.line("copy user of %s from %s to %s success.", name, source, target)


def parts(text: str) -> list[str]:
    """Return the parts of a text between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def place(verb: str) -> tuple[VerbOption, VerbOption]:
    """Return the options that name a cluster or a broker."""
    return (
        VerbOption("c", "clusterName", f"{verb} which cluster"),
        VerbOption("b", "brokerAddr", f"{verb} which broker"),
    )


def _name(verb: str) -> VerbOption:
    return VerbOption("u", "username", f"the username of user to {verb}.", required=True)


VERBS: Final = (
    Verb("createUser", "Create user to cluster.",
         (*place("create user to"), _name("create"),
          VerbOption("p", "password", "the password of user to create", required=True),
          VerbOption("t", "userType", "the userType of user to create")),
         create_user, either=(("b", "c"),)),
    Verb("updateUser", "Update user to cluster.",
         (*place("update user to"), _name("update"),
          VerbOption("p", "password", "the password of user to update"),
          VerbOption("t", "userType", "the userType of user to update"),
          VerbOption("s", "userStatus", "the userStatus of user to update")),
         update_user, either=(("b", "c"), ("p", "s", "t"))),
    Verb("deleteUser", "Delete user from cluster.", (*place("delete user from"), _name("delete")), delete_user,
         either=(("b", "c"),)),
    Verb("getUser", "Get user from cluster.",
         (*place("get user for"), VerbOption("u", "username", "the username of user to get")), get_user,
         either=(("b", "c"),)),
    Verb("listUser", "List user from cluster.",
         (*place("list user for"), VerbOption("f", "filter", "the filter to list users")), list_user,
         either=(("b", "c"),)),
    Verb("copyUser", "Copy user to cluster.",
         (VerbOption("f", "fromBroker", "the source broker that the users copy from", required=True),
          VerbOption("t", "toBroker", "the target broker that the users copy to", required=True),
          VerbOption("u", "usernames", "the username list of user to copy.")),
         copy_user),
)  # fmt: skip
