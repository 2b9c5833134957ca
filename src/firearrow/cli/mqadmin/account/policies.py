"""``createAcl``, ``updateAcl``, ``deleteAcl``, ``getAcl``, ``listAcl``, ``copyAcl``."""

from typing import Final

from firearrow import fastjson
from firearrow.cli.mqadmin.account.users import masters, place, tell_members
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import Given, Option, Verb
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.admin.auth import (
    AuthCreateAcl,
    AuthDeleteAcl,
    AuthGetAcl,
    AuthListAcl,
    AuthUpdateAcl,
)

FORM: Final = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"
CUSTOM: Final = "Custom"


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _acl(given: Given) -> AclInfo:
    entries = [
        PolicyEntry(
            resource=resource,
            actions=_parts(given.text("a")),
            source_ips=_parts(given.text("i")) if given.has("i") else None,
            decision=given.text("d"),
        )
        for resource in _parts(given.text("r"))
    ]
    return AclInfo(subject=given.text("s"), policies=[Policy(policy_type=CUSTOM, entries=entries)])


async def create_acl(session: Session, given: Given) -> None:
    """Give a subject permissions."""
    await tell_members(session, given, "create acl", AuthCreateAcl(subject=given.text("s")), encode_body(_acl(given)))


async def update_acl(session: Session, given: Given) -> None:
    """Change the permissions of a subject."""
    await tell_members(session, given, "update acl", AuthUpdateAcl(subject=given.text("s")), encode_body(_acl(given)))


async def delete_acl(session: Session, given: Given) -> None:
    """Take permissions from a subject."""
    request = AuthDeleteAcl(subject=given.text("s"), resource=given.text("r") or None)
    await tell_members(session, given, "delete acl", request)


async def _find(session: Session, address: str, subject: str) -> AclInfo | None:
    body = (await session.ask(address, AuthGetAcl(subject=subject))).body
    return fastjson.decode(body, AclInfo) if body else None


async def _list(session: Session, address: str, subject: str, resource: str) -> list[AclInfo]:
    request = AuthListAcl(subject_filter=subject or None, resource_filter=resource or None)
    body = (await session.ask(address, request)).body
    return fastjson.decode(body, list[AclInfo]) if body else []


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


async def get_acl(session: Session, given: Given) -> None:
    """Print the permissions of a subject."""
    for address in await masters(session, given):
        acl = await _find(session, address, given.text("s"))
        if acl is not None:
            _print_acls(session, [acl])


async def list_acl(session: Session, given: Given) -> None:
    """Print the permissions of all subjects."""
    for address in await masters(session, given):
        acls = await _list(session, address, given.text("s"), given.text("r"))
        if acls:
            _print_acls(session, acls)


async def copy_acl(session: Session, given: Given) -> None:
    """Copy permissions from a broker to another."""
    source, target = given.text("f"), given.text("t")
    subjects = _parts(given.text("s"))
    acls = (
        [await _find(session, source, each) for each in subjects] if subjects else await _list(session, source, "", "")
    )
    for acl in acls:
        if acl is None:
            continue
        subject = acl.subject or ""
        known = await _find(session, target, subject) is not None
        request = AuthUpdateAcl(subject=subject) if known else AuthCreateAcl(subject=subject)
        await session.ask(target, request, encode_body(acl))
        session.line("copy acl of %s from %s to %s success.", subject, source, target)


def _policy(verb: str) -> tuple[Option, ...]:
    return (
        Option("s", "subject", f"the subject of acl to {verb}.", required=True),
        Option("r", "resources", f"the resources of acl to {verb}", required=True),
        Option("a", "actions", f"the actions of acl to {verb}", required=True),
        Option("i", "sourceIp", f"the sourceIps of acl to {verb}"),
        Option("d", "decision", f"the decision of acl to {verb}", required=True),
    )


VERBS: Final = (
    Verb("createAcl", "Create acl to cluster.", (*place("create acl to"), *_policy("create")), create_acl,
         either=(("b", "c"),)),
    Verb("updateAcl", "Update acl to cluster.", (*place("update acl to"), *_policy("update")), update_acl,
         either=(("b", "c"),)),
    Verb("deleteAcl", "Delete acl from cluster.",
         (*place("delete acl from"), Option("s", "subject", "the subject of acl to delete.", required=True),
          Option("r", "resources", "the resources of acl to delete")),
         delete_acl, either=(("b", "c"),)),
    Verb("getAcl", "Get acl from cluster.",
         (*place("get acl for"), Option("s", "subject", "the subject of acl to get")), get_acl, either=(("b", "c"),)),
    Verb("listAcl", "List acl from cluster.",
         (*place("list acl for"), Option("s", "subject", "the subject of acl to filter."),
          Option("r", "resource", "the resource of acl to filter.")),
         list_acl, either=(("b", "c"),)),
    Verb("copyAcl", "Copy acl to cluster.",
         (Option("f", "fromBroker", "the source broker that the acls copy from", required=True),
          Option("t", "toBroker", "the target broker that the acls copy to", required=True),
          Option("s", "subjects", "the subject list of acl to copy.")),
         copy_acl),
)  # fmt: skip
