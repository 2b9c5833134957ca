"""``firearrow doctor``: look at a cluster and this host, and name what is wrong."""

from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import AsJson, NameServers, ask
from firearrow.cli.tables import print_json, print_table
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.host import HostLimits, this_host

if TYPE_CHECKING:
    from firearrow.admin.doctor.faults import Finding
    from firearrow.admin.doctor.snapshot import ClusterSnapshot


def doctor(
    context: typer.Context,
    host: Annotated[
        bool, typer.Option("--host/--no-host", help="Judge the limits of this host too; a broker runs here.")
    ] = False,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Look for faults of a cluster: what is wrong, and what to do. Ends with 1 if there is an error.

    It asks name servers, brokers and consumers, and changes nothing.
    """
    from firearrow.admin.doctor.collect import collect
    from firearrow.admin.doctor.faults import ERROR, judge

    machine = this_host() if host else HostLimits()
    seen = ask(context, servers, lambda admin: collect(admin, SystemClock().now_ms(), machine))
    findings = judge(seen)
    if as_json:
        print_json({"findings": [_fields(each) for each in findings], "leftOut": seen.left_out})
    else:
        _print(seen, findings)
    if any(each.severity == ERROR for each in findings):
        raise typer.Exit(1)


def _print(seen: "ClusterSnapshot", findings: list["Finding"]) -> None:
    rows = [(each.severity, each.name, each.about, each.what, each.next) for each in findings]
    if rows:
        print_table("Faults", ["", "fault", "where", "what", "what to do"], rows)
    looked = f"{len(seen.name_servers)} name servers, {len(seen.brokers)} brokers, {len(seen.topics)} topics"
    typer.echo(f"looked at {looked} and {len(seen.groups)} groups: {len(findings) or 'no'} faults found")
    if seen.left_out:
        typer.echo(f"not looked at: {seen.left_out}")


def _fields(finding: "Finding") -> dict[str, str]:
    return {
        "severity": finding.severity,
        "fault": finding.name,
        "where": finding.about,
        "what": finding.what,
        "next": finding.next,
    }
