"""The environment variables that ``firearrow`` reads, and warnings about unknown ones with our prefix.

``FIREARROW_NAMESRV`` names the name servers for commands and servers; ``FIREARROW_NAMESRV_ADDR``, after the setting's
name, and Apache's ``NAMESRV_ADDR`` say the same. ``FIREARROW_<SETTING>`` is a setting of a server.
"""

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final, TypedDict

from firearrow.model.signature import SignatureMethod
from firearrow.runtime.tls_settings import ClientTls
from firearrow.settings.load import ENVIRONMENT_PREFIX
from firearrow.settings.schema import leaves

NAME_SERVERS: Final = ["FIREARROW_NAMESRV", "FIREARROW_NAMESRV_ADDR", "NAMESRV_ADDR"]
"""Variables that name the name servers; the first that is set counts."""

LOCAL_NAME_SERVER: Final = "127.0.0.1:9876"
"""A name server's usual address, given where only brokers are asked, by their own addresses."""

STORAGE: Final = "FIREARROW_STORAGE"
"""Settings of the storage of lake tables, key=value, separated by spaces."""


class AccessOptions(TypedDict, total=False):
    """TLS settings and the keys of an account, the same for every command and every client."""

    tls: ClientTls
    access_key: str
    secret_key: str
    signature_method: SignatureMethod


OF_COMMANDS: Final = frozenset(
    {
        *NAME_SERVERS,
        "FIREARROW_TLS",
        "FIREARROW_TLS_TRUST",
        "FIREARROW_ACCESS_KEY",
        "FIREARROW_SECRET_KEY",
        "FIREARROW_SIGNATURE_METHOD",
        "FIREARROW_PROFILE",
        "FIREARROW_USER_PASSWORD",
        "FIREARROW_TO_ACCESS_KEY",
        "FIREARROW_TO_SECRET_KEY",
        STORAGE,
        "FIREARROW_CACHE",
        "FIREARROW_SEEDS",
        "FIREARROW_MQADMIN_EXIT",
    }
)
"""Variables of commands and the testing kit; every other one is a setting of a server."""

SETTINGS: Final = {
    "firearrow.broker.settings.config": "BrokerSettings",
    "firearrow.cli.nameserver": "NameServerSettings",
}


def server_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the name servers, however they are given, in ``FIREARROW_NAMESRV_ADDR``."""
    found = dict(environment)
    given = next((environment[name] for name in NAME_SERVERS if environment.get(name, "").strip()), None)
    for name in NAME_SERVERS:
        found.pop(name, None)
    if given is not None:
        found["FIREARROW_NAMESRV_ADDR"] = given
    return found


def unread(environment: Iterable[str]) -> list[str]:
    """Return a warning for every variable with our prefix that no command and no setting uses."""
    strange = sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in OF_COMMANDS)
    if not strange:
        return []
    known = OF_COMMANDS | _settings()
    return [_line(name, known) for name in strange if name not in known]


def _settings() -> frozenset[str]:
    kinds = [getattr(import_module(module), name) for module, name in SETTINGS.items()]
    return frozenset(f"{ENVIRONMENT_PREFIX}{leaf.name.upper()}" for kind in kinds for leaf in leaves(kind))


def _line(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{name} in the environment is not a known variable{hint}"
