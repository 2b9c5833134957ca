"""``createAcl``, ``updateAcl``, ``deleteAcl``, ``getAcl``, ``listAcl``, ``copyAcl``."""

from typing import Final

from firearrow.cli.mqadmin.account.users import parts, place, tell_members
from firearrow.cli.mqadmin.places import masters
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry

FORM: Final = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"
CUSTOM: Final = "Custom"


def _acl(given: OptionValues) -> AclInfo:
    entries = [
        PolicyEntry(
            resource=resource,
            actions=parts(given.text("a")),
            source_ips=parts(given.text("i")) if given.has("i") else None,
            decision=given.text("d"),
        )
        for resource in parts(given.text("r"))
    ]
    return AclInfo(subject=given.text("s"), policies=[Policy(policy_type=CUSTOM, entries=entries)])


async def create_acl(session: Session, given: OptionValues) -> None:
    """Give a subject permissions."""
    create = session.admin.accounts.create_rules
    await tell_members(session, given, "create acl", lambda at: create(at, _acl(given)))


async def update_acl(session: Session, given: OptionValues) -> None:
    """Change the permissions of a subject."""
    update = session.admin.accounts.update_rules
    await tell_members(session, given, "update acl", lambda at: update(at, _acl(given)))


async def delete_acl(session: Session, given: OptionValues) -> None:
    """Take permissions from a subject."""
    delete = session.admin.accounts.delete_rules
    await tell_members(session, given, "delete acl", lambda at: delete(at, given.text("s"), given.text("r") or None))


def _print_acls(session: Session, acls: list[AclInfo]) -> None:
    session.line(FORM, "#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    for acl in acls:
        if not acl.policies:
            session.line(FORM, acl.subject, "", "", "", "", "")
        for policy in acl.policies or []:
            for entry in policy.entries or []:
                session.line(
                    FORM, acl.subject, policy.policy_type, entry.resource, entry.actions, entry.source_ips,
                    entry.decision,
                )  # fmt: skip


async def get_acl(session: Session, given: OptionValues) -> None:
    """Print the permissions of a subject."""
    for address in await masters(session, given):
        acl = await session.admin.accounts.rules_of(address, given.text("s"))
        if acl is not None:
            _print_acls(session, [acl])


async def list_acl(session: Session, given: OptionValues) -> None:
    """Print the permissions of all subjects."""
    for address in await masters(session, given):
        acls = await session.admin.accounts.rules(address, given.text("s"), given.text("r"))
        if acls:
            _print_acls(session, acls)


async def copy_acl(session: Session, given: OptionValues) -> None:
    """Copy permissions from a broker to another."""
    source, target, accounts = given.text("f"), given.text("t"), session.admin.accounts
    subjects = parts(given.text("s"))
    acls = [await accounts.rules_of(source, each) for each in subjects] if subjects else await accounts.rules(source)
    for acl in filter(None, acls):
        known = await accounts.rules_of(target, acl.subject or "") is not None
        await (accounts.update_rules if known else accounts.create_rules)(target, acl)
        session.line("copy acl of %s from %s to %s success.", acl.subject or "", source, target)


def _policy(verb: str) -> tuple[VerbOption, ...]:
    return (
        VerbOption("s", "subject", f"the subject of acl to {verb}.", required=True),
        VerbOption("r", "resources", f"the resources of acl to {verb}", required=True),
        VerbOption("a", "actions", f"the actions of acl to {verb}", required=True),
        VerbOption("i", "sourceIp", f"the sourceIps of acl to {verb}"),
        VerbOption("d", "decision", f"the decision of acl to {verb}", required=True),
    )


VERBS: Final = (
    Verb("createAcl", "Create acl to cluster.", (*place("create acl to"), *_policy("create")), create_acl,
         either=(("b", "c"),)),
    Verb("updateAcl", "Update acl to cluster.", (*place("update acl to"), *_policy("update")), update_acl,
         either=(("b", "c"),)),
    Verb("deleteAcl", "Delete acl from cluster.",
         (*place("delete acl from"), VerbOption("s", "subject", "the subject of acl to delete.", required=True),
          VerbOption("r", "resources", "the resources of acl to delete")),
         delete_acl, either=(("b", "c"),)),
    Verb("getAcl", "Get acl from cluster.",
         (*place("get acl for"), VerbOption("s", "subject", "the subject of acl to get")), get_acl, either=(("b",
         "c"),)),
    Verb("listAcl", "List acl from cluster.",
         (*place("list acl for"), VerbOption("s", "subject", "the subject of acl to filter."),
          VerbOption("r", "resource", "the resource of acl to filter.")),
         list_acl, either=(("b", "c"),)),
    Verb("copyAcl", "Copy acl to cluster.",
         (VerbOption("f", "fromBroker", "the source broker that the acls copy from", required=True),
          VerbOption("t", "toBroker", "the target broker that the acls copy to", required=True),
          VerbOption("s", "subjects", "the subject list of acl to copy.")),
         copy_acl),
)  # fmt: skip
