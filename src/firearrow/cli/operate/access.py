"""``firearrow user`` and ``firearrow acl``: who is let in at brokers, ours or Apache's 5.x, and what they may do there.

Every broker keeps its own users and rules, so every command goes to all brokers of the cluster, or to one (``-b``).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firearrow.access.bodies import rules_in
from firearrow.access.decide import decide
from firearrow.access.declared import thing
from firearrow.access.rules import (
    USER_PREFIX,
    Action,
    ResourceKind,
    ResourcePattern,
    Rules,
    User,
    UserStatus,
    UserType,
    parse_resource,
    star_fault,
    word,
)
from firearrow.cli.cluster import AsJson, NameServers, ask, fail
from firearrow.cli.operate.listing import ShowOptions, Watch
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.cli.tables import print_table
from firearrow.errors import NoSuchName

if TYPE_CHECKING:
    from firearrow.access.decide import AccessVerdict, Need
    from firearrow.admin import Admin
    from firearrow.protocol.bodies.admin.auth import AclInfo, UserInfo
    from firearrow.runtime.network import Address

DENIED: Final = 1

user = typer.Typer(add_completion=False, help="Create, list, update and delete the users that brokers let in.")
acl = typer.Typer(add_completion=False, help="Create, list, delete and test the rules that say what users may do.")

Name = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")]
Resource = Annotated[
    str,
    typer.Argument(metavar="RESOURCE", help="Topic:orders, Topic:orders*, Group:billing, Cluster:c, Topic:* or *."),
]
Password = Annotated[
    str,
    typer.Option(
        envvar="FIREARROW_USER_PASSWORD",
        prompt=True,
        hide_input=True,
        help="The password; asked for, or read from standard input, when it is not given.",
    ),
]


@dataclass(frozen=True)
class KeeperOptions(OptionGroup):
    """The brokers whose users and rules are meant."""

    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Only brokers of this cluster.")] = ""
    broker: Annotated[str, typer.Option("--broker", "-b", help="Only this broker, by name or by address.")] = ""
    servers: NameServers = ""

    def change(
        self, context: typer.Context, change: Callable[["Admin", "Address"], Awaitable[None]], said: str
    ) -> None:
        """Make a change at every one of the brokers, and say where it was made."""
        from firearrow.admin.brokers import at_each

        async def work(admin: "Admin") -> None:
            async def at(address: "Address") -> None:
                await change(admin, address)
                typer.echo(f"{said} at {address}")

            keepers = await admin.accounts.keepers(self.cluster, self.broker)
            await at_each({f"broker {address}": partial(at, address) for address in keepers})

        ask(context, self.servers, work)


Row = dict[str, str]


def _listing(
    context: typer.Context,
    keepers: KeeperOptions,
    shown: tuple[bool, float | None],
    title: str,
    columns: list[str],
    rows_at: Callable[["Admin", "Address"], Awaitable[list[Row]]],
) -> None:
    """Show the rows that every broker has."""

    async def rows(admin: "Admin") -> list[Row]:
        asked = await admin.accounts.keepers(keepers.cluster, keepers.broker)
        return [row for address in asked for row in await rows_at(admin, address)]

    ShowOptions(keepers.servers, *shown).show(
        context,
        rows,
        fields=lambda rows: rows,
        tables=lambda rows: print_table(title, columns, [list(row.values()) for row in rows]),
    )


@user.command("create")
@grouped
def create_user(
    context: typer.Context,
    name: Name,
    password: Password,
    is_super: Annotated[bool, typer.Option("--super", help="Let the user do everything.")] = False,
    *,
    keepers: KeeperOptions,
) -> None:
    """Make a user."""
    kind = UserType.SUPER if is_super else UserType.NORMAL

    keepers.change(
        context,
        lambda admin, address: admin.accounts.create_user(address, name, password, kind=kind.value),
        f"created {kind.value.lower()} user {name}",
    )


@user.command("update")
@grouped
def update_user(
    context: typer.Context,
    name: Name,
    password: Annotated[
        str, typer.Option(envvar="FIREARROW_USER_PASSWORD", help="A new password; better given in the environment.")
    ] = "",
    is_super: Annotated[bool | None, typer.Option("--super/--normal", help="Let the user do everything.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Let the user in, or not.")] = None,
    *,
    keepers: KeeperOptions,
) -> None:
    """Change the password, the kind or the status of a user."""
    if not password and is_super is None and enabled is None:
        fail(context, "nothing to change; give --password, --super, --normal, --enable or --disable")
    kind = None if is_super is None else (UserType.SUPER if is_super else UserType.NORMAL).value
    status = None if enabled is None else (UserStatus.ENABLE if enabled else UserStatus.DISABLE).value

    keepers.change(
        context,
        lambda admin, address: admin.accounts.update_user(
            address, name, password=password or None, kind=kind, status=status
        ),
        f"updated user {name}",
    )


@user.command("delete")
@grouped
def delete_user(context: typer.Context, name: Name, keepers: KeeperOptions) -> None:
    """Forget a user, with its rules."""

    keepers.change(context, lambda admin, address: admin.accounts.delete_user(address, name), f"deleted user {name}")


@user.command("list")
@grouped
def list_users(context: typer.Context, keepers: KeeperOptions, as_json: AsJson = False, watch: Watch = None) -> None:
    """List users, without their passwords."""

    async def rows_at(admin: "Admin", address: "Address") -> list[Row]:
        return [_user_row(address, info) for info in await admin.accounts.users(address)]

    columns = ["broker", "user", "type", "status"]
    _listing(context, keepers, (as_json, watch), "Users", columns, rows_at)


@acl.command("create")
@grouped
def create_rule(
    context: typer.Context,
    name: Name,
    actions: Annotated[
        str, typer.Argument(metavar="ACTIONS", help="Pub, Sub, Create, Update, Delete, Get, List, All; with commas.")
    ],
    resource: Resource,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allowing.")] = False,
    sources: Annotated[
        list[str] | None,
        typer.Option("--from", help="Only from this address or range, such as 10.0.0.0/8; repeatable."),
    ] = None,
    *,
    keepers: KeeperOptions,
) -> None:
    """Allow or deny a user actions on a resource; a rule about the same resource is replaced."""
    from firearrow.protocol.bodies.admin.auth import PolicyEntry

    if (fault := star_fault(resource)) is not None:
        fail(context, fault)
    decision = "Deny" if deny else "Allow"
    rule = PolicyEntry(
        resource=resource, actions=_words(actions), decision=decision, source_ips=list(sources or ()) or None
    )

    keepers.change(
        context,
        lambda admin, address: admin.accounts.put_rule(address, USER_PREFIX + name, rule),
        f"{decision.lower()} {actions} on {resource} to {name}: set",
    )


@acl.command("delete")
@grouped
def delete_rules(
    context: typer.Context,
    name: Name,
    resource: Annotated[
        str, typer.Argument(metavar="[RESOURCE]", help="The resource of the rule; without it, all rules go.")
    ] = "",
    *,
    keepers: KeeperOptions,
) -> None:
    """Take the rule about a resource, or all rules, from a user."""
    said = f"deleted the rule of {name} about {resource}" if resource else f"deleted all rules of {name}"
    keepers.change(
        context, lambda admin, at: admin.accounts.delete_rules(at, USER_PREFIX + name, resource or None), said
    )


@acl.command("list")
@grouped
def list_rules(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[USER]", help="Only users whose names hold this text.")] = "",
    *,
    keepers: KeeperOptions,
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List rules."""

    async def rows_at(admin: "Admin", address: "Address") -> list[Row]:
        return [row for info in await admin.accounts.rules(address, name) for row in _rule_rows(address, info)]

    columns = ["broker", "user", "decision", "actions", "resource", "from", "kind"]
    _listing(context, keepers, (as_json, watch), "Rules", columns, rows_at)


@acl.command("test")
@grouped
def ask_rules(
    context: typer.Context,
    name: Name,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="One action, such as Pub.")],
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="One thing, such as Topic:orders.")],
    source: Annotated[str, typer.Option("--from", help="The address that the request comes from.")] = "127.0.0.1",
    *,
    keepers: KeeperOptions,
) -> None:
    """Say whether a user may do something, and which rule says so. The exit status is 1 if a broker denies it."""
    need = _need(context, action, resource)

    async def work(admin: "Admin") -> list[tuple["Address", "AccessVerdict"]]:
        asked = await admin.accounts.keepers(keepers.cluster, keepers.broker)
        return [(address, await _verdict(admin, address, name, need, source)) for address in asked]

    verdicts = ask(context, keepers.servers, work)
    for address, verdict in verdicts:
        why = verdict.reason if verdict.rule is None else f"the rule says: {verdict.rule}"
        typer.echo(f"{address}: {'yes' if verdict.allowed else 'no'}, {why}")
    if not all(verdict.allowed for _, verdict in verdicts):
        raise typer.Exit(DENIED)


async def _verdict(admin: "Admin", at: "Address", name: str, need: "Need", source: str) -> "AccessVerdict":
    known = [info for info in await admin.accounts.users(at, name) if info.username == name]
    if not known:
        raise NoSuchName(f"{at} has no user {name!r}; `firearrow user list` shows those that it has")
    rules = await admin.accounts.rules_of(at, USER_PREFIX + name)
    kind = word(UserType, known[0].user_type) or UserType.NORMAL
    status = word(UserStatus, known[0].user_status) or UserStatus.ENABLE
    return decide(User(name, "", kind, status), Rules() if rules is None else rules_in(rules), need, source)


def _need(context: typer.Context, action: str, resource: str) -> "Need":
    wanted, found = word(Action, action), parse_resource(resource)
    if wanted is None or wanted is Action.ALL:
        known = ", ".join(each.value for each in Action if each is not Action.ALL)
        fail(context, f"{action!r} is not an action; write one of {known}")
    if found is None or found.pattern is not ResourcePattern.LITERAL or found.kind is ResourceKind.ANY:
        fail(context, f"{resource!r} is not one thing; write Topic:NAME, Group:NAME or Cluster:NAME")
    return thing(found.kind, found.name, (wanted,))


def _user_row(address: "Address", info: "UserInfo") -> Row:
    return {
        "broker": str(address),
        "user": info.username or "",
        "type": info.user_type or "",
        "status": info.user_status or "",
    }


def _rule_rows(address: "Address", info: "AclInfo") -> list[Row]:
    return [
        {
            "broker": str(address),
            "user": (info.subject or "").removeprefix(USER_PREFIX),
            "decision": entry.decision or "",
            "actions": ",".join(entry.actions or ()),
            "resource": entry.resource or "",
            "from": ",".join(entry.source_ips or ()) or "everywhere",
            "kind": policy.policy_type or "",
        }
        for policy in info.policies or ()
        for entry in policy.entries or ()
    ]


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
