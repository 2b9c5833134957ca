"""Known faults of what we depend on, by pip-audit, and how much of it could be looked up at all.

pip-audit ends with success when its data could not be had. Here that is said: what was not looked up is not green.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TREE = Path(__file__).parents[2]
SERVICES: Final = ("pypi", "osv")
"""The services that pip-audit can ask: the JSON interface of a package index, and the OSV database."""
TIMEOUT_S: Final = 300
WRONG_WORDS: Final = 2
NO_DATA: Final = 3
"""Exit status when nothing could be looked up: neither green nor red."""


@dataclass(frozen=True)
class Audit:
    """The report of a service on our dependencies."""

    service: str
    looked_up: int
    skipped: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def has_data(self) -> bool:
        """Whether anything could be looked up."""
        return self.looked_up > 0


def read_report(service: str, report: dict[str, Any]) -> Audit:
    """Read pip-audit's JSON."""
    dependencies = report.get("dependencies", [])
    skipped = tuple(one["name"] for one in dependencies if "skip_reason" in one)
    faults = tuple(
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for one in dependencies
        for fault in one.get("vulns", ())
    )
    return Audit(service, len(dependencies) - len(skipped), skipped, faults)


def judged(audits: list[Audit]) -> tuple[int, list[str]]:
    """Return the exit status and the words for it."""
    with_data = [audit for audit in audits if audit.has_data]
    if not with_data:
        return NO_DATA, [f"NO DATA from {', '.join(SERVICES)}: nothing was audited, and nothing is known to be sound"]
    lines = []
    for audit in with_data:
        lines.append(
            f"{audit.service}: {audit.looked_up} looked up, {len(audit.skipped)} not, {len(audit.faults)} faults"
        )
        lines += [f"  FAULT {fault}" for fault in audit.faults]
    never = set.intersection(*(set(audit.skipped) for audit in with_data))
    lines += [f"  NOT AUDITED: {', '.join(sorted(never))}"] if never else []
    return (1 if any(audit.faults for audit in with_data) else 0), lines


def _asked(service: str) -> Audit:
    words = [
        sys.executable,
        "-m",
        "pip_audit",
        "--vulnerability-service",
        service,
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    words += ["--no-deps", "--disable-pip", "--requirement", str(TREE / "constraints.txt")]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Audit(service, 0, (), ())
    if done.returncode == WRONG_WORDS:
        raise RuntimeError(f"pip-audit does not understand how it is called:\n{done.stderr}")
    try:
        return read_report(service, json.loads(done.stdout))
    except ValueError:
        return Audit(service, 0, (), ())  # it ends with a traceback when nobody answers


def audit() -> int:
    """Ask every service; print what they say and return the exit status."""
    status, lines = judged([_asked(service) for service in SERVICES])
    print("\n".join(lines))
    return status
