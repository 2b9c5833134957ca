"""Finds the command, reads its options, runs it, and makes an exit status of the outcome.

The statuses are Apache's: 1 for wrong options, 0 for everything else, a command that fails among it, so that runbooks
go on where they went on. ``FIREARROW_MQADMIN_EXIT=strict`` makes a command that fails end with 1. What does not exist
here, commands and single options, ends with 1 always: Apache's tool would have done it.
"""

import asyncio
import os
import random
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from firearrow.cli.environment import NAME_SERVERS, AccessOptions
from firearrow.cli.mqadmin import catalogue
from firearrow.cli.mqadmin.catalogue import found_verb, near_verbs
from firearrow.cli.mqadmin.command_line import WrongOptions, read_options, usage
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, UsageNeeded, Verb
from firearrow.cli.output import standard_output
from firearrow.errors import FireArrowError, SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.tls_settings import ClientTls

FAILED: Final = 1
EXIT: Final = "FIREARROW_MQADMIN_EXIT"
STRICT: Final = "strict"
ENDED_BY_SIGINT: Final = 130
_key = re.compile(r"^\s*(accessKey|secretKey)\s*:\s*[\"']?([^\"'\s]*)", re.MULTILINE).findall


def start(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run one command line and return the exit status."""
    failure = FAILED if environment.get(EXIT, "") == STRICT else 0
    if not words:
        standard_output().write(listing())
        return 0
    is_help = words[0] == "help" and len(words) == 2
    name = words[1] if is_help else words[0]
    verb = found_verb(name)
    if verb is None:
        standard_output().write(_unknown(name))
        return failure
    if is_help:
        standard_output().write(usage(verb))
        return 0
    try:
        _run(verb, list(words[1:]), environment)
    except _Ended as ended:
        return failure if ended.has_failed else ended.status
    return 0


def listing() -> str:
    """Return the list of all commands."""
    lines = [f"   {verb.name:<35} {verb.help}" for verb in catalogue.VERBS]
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


class _Ended(Exception):
    """The command ended before its work was done, with a status, or because it failed."""

    def __init__(self, status: int = FAILED, *, has_failed: bool = False) -> None:
        self.status = status
        self.has_failed = has_failed


def _run(verb: Verb, words: list[str], environment: Mapping[str, str]) -> None:
    if verb.run is None:
        print(f"mqadmin {verb.name}: {verb.why_not}", file=sys.stderr)
        raise _Ended
    try:
        given = read_options(verb, words)
    except WrongOptions as wrong:
        print(wrong, file=sys.stderr)
        standard_output().write(usage(verb))
        raise _Ended from wrong
    if given.has("h"):
        standard_output().write(usage(verb))
        return
    absent = next((option for option in verb.options if option.why_not and given.has(option.short)), None)
    if absent is not None:
        print(f"mqadmin {verb.name}: -{absent.short} cannot be honoured: {absent.why_not}", file=sys.stderr)
        raise _Ended
    _execute(verb, given, environment)


def _execute(verb: Verb, given: OptionValues, environment: Mapping[str, str]) -> None:
    known = next((environment[name] for name in NAME_SERVERS if environment.get(name, "").strip()), "")
    try:
        failures = asyncio.run(_with_session(verb, given, given.text("n", known), reach(environment)))
    except UsageNeeded:
        standard_output().write(usage(verb))
        return
    except FireArrowError as error:
        print(f"mqadmin {verb.name}: {error}", file=sys.stderr)
        raise _Ended(has_failed=True) from error
    except KeyboardInterrupt as stop:
        raise _Ended(ENDED_BY_SIGINT) from stop
    if failures:
        raise _Ended(has_failed=True)


async def _with_session(verb: Verb, given: OptionValues, name_servers: str, how: AccessOptions) -> int:
    assert verb.run is not None
    session = Session(name_servers, how, random.Random())
    try:
        await verb.run(session, given)
    finally:
        await session.close()
    return session.failures


def reach(environment: Mapping[str, str]) -> AccessOptions:
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
    method = _signature_method(environment.get("FIREARROW_SIGNATURE_METHOD", ""))
    return AccessOptions(
        tls=speaks, access_key=keys["accessKey"], secret_key=keys["secretKey"], signature_method=method
    )


def _signature_method(text: str) -> SignatureMethod:
    try:
        return SignatureMethod(text or SignatureMethod.SHA1)
    except ValueError:
        known = " or ".join(SignatureMethod)
        raise SettingsError(f"FIREARROW_SIGNATURE_METHOD={text} is not known; write {known}") from None
