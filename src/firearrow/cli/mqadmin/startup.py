"""Finds the command, reads its options, runs it, and makes an exit status of the outcome.

The statuses are Apache's for a usage error (1) and for help (0). A command that fails ends with 1, where Apache's tool
prints a stack trace and ends with 0; ``FIREARROW_MQADMIN_EXIT=apache`` gives Apache's 0.
"""

import asyncio
import os
import random
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from firearrow.cli.environment import NAME_SERVERS, Reach
from firearrow.cli.mqadmin.catalogue import VERBS, found_verb, near_verbs
from firearrow.cli.mqadmin.command_line import WrongOptions, read_options, usage
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import Given, UsageNeeded, Verb
from firearrow.cli.output import standard_output
from firearrow.errors import FireArrowError
from firearrow.runtime.tls_settings import ClientTls

FAILED: Final = 1
ENDED_BY_SIGINT: Final = 130
_key = re.compile(r"^\s*(accessKey|secretKey)\s*:\s*[\"']?([^\"'\s]*)", re.MULTILINE).findall


def start(words: Sequence[str]) -> int:
    """Run one command line and return the exit status."""
    if not words:
        standard_output().write(listing())
        return 0
    if words[0] == "help" and len(words) == 2:
        verb = found_verb(words[1])
        standard_output().write(usage(verb) if verb else _unknown(words[1]))
        return 0 if verb else FAILED
    verb = found_verb(words[0])
    if verb is None:
        standard_output().write(_unknown(words[0]))
        return _failure()
    return _run(verb, list(words[1:]))


def listing() -> str:
    """Return the list of all commands."""
    lines = [f"   {verb.name:<35} {verb.help}" for verb in VERBS]
    return "\n".join(
        [
            "The most commonly used mqadmin commands are:",
            *lines,
            "",
            "See 'mqadmin help <command>' for more information on a specific command.",
            "",
        ]
    )


def _unknown(name: str) -> str:
    near = near_verbs(name)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"The sub command {name} not exist.{hint}\n"


def _run(verb: Verb, words: list[str]) -> int:
    if verb.run is None:
        print(f"mqadmin {verb.name}: {verb.why_not}", file=sys.stderr)
        return FAILED
    try:
        given = read_options(verb, words)
    except WrongOptions as wrong:
        print(wrong, file=sys.stderr)
        standard_output().write(usage(verb))
        return FAILED
    if given.has("h"):
        standard_output().write(usage(verb))
        return 0
    return _executed(verb, given, os.environ)


def _executed(verb: Verb, given: Given, environment: Mapping[str, str]) -> int:
    known = next((environment[name] for name in NAME_SERVERS if environment.get(name, "").strip()), "")
    try:
        failures = asyncio.run(_with_session(verb, given, given.text("n", known), reach(environment)))
    except UsageNeeded:
        standard_output().write(usage(verb))
        return 0
    except FireArrowError as error:
        print(f"mqadmin {verb.name}: {error}", file=sys.stderr)
        return _failure()
    except KeyboardInterrupt:
        return ENDED_BY_SIGINT
    return _failure() if failures else 0


async def _with_session(verb: Verb, given: Given, name_servers: str, how: Reach) -> int:
    assert verb.run is not None
    session = Session(name_servers, how, random.Random())
    try:
        await verb.run(session, given)
    finally:
        await session.close()
    return session.failures


def _failure() -> int:
    return 0 if os.environ.get("FIREARROW_MQADMIN_EXIT", "") == "apache" else FAILED


def reach(environment: Mapping[str, str]) -> Reach:
    """Return TLS and keys: from the environment, or keys from Apache's ``conf/tools.yml`` under ROCKETMQ_HOME."""
    tls, trust = environment.get("FIREARROW_TLS", ""), environment.get("FIREARROW_TLS_TRUST", "")
    keys = {"accessKey": environment.get("FIREARROW_ACCESS_KEY", "")}
    keys["secretKey"] = environment.get("FIREARROW_SECRET_KEY", "")
    home = environment.get("ROCKETMQ_HOME", "")
    file = Path(home) / "conf" / "tools.yml"
    if home and not any(keys.values()) and file.is_file():
        keys |= dict(_key(file.read_text(errors="replace")))
    speaks = ClientTls(
        enabled=tls.lower() in ("1", "true", "yes", "on") or bool(trust), verify_server=bool(trust), trust_path=trust
    )
    return Reach(tls=speaks, access_key=keys["accessKey"], secret_key=keys["secretKey"])
