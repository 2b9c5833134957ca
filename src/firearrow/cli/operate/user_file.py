"""Profiles: how a cluster is reached, kept under a name in a file of the user.

The file is ``profiles.json`` in ``$XDG_CONFIG_HOME/firearrow``, or in ``~/.config/firearrow``. It may hold secrets, so
only its owner may read it: it is written with mode 0600, and not read if others could have read it.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from firearrow.errors import NoSuchName, SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.telemetry.hidden import hidden_repr

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Profile(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The name servers, TLS settings and keys for one cluster."""

    __repr__ = hidden_repr

    name_servers: str
    tls: bool = False
    trust: str = ""
    access_key: str = ""
    secret_key: str = ""
    signature_method: SignatureMethod = SignatureMethod.SHA1

    def shown(self) -> dict[str, object]:
        """Return what may be printed: everything but the secret."""
        return {
            "nameServers": self.name_servers,
            "tls": self.tls,
            "trust": self.trust,
            "accessKey": self.access_key,
            "secretKey": "set" if self.secret_key else "",
            "signatureMethod": self.signature_method,
        }


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return where the profiles of this user are."""
    base = environment.get("XDG_CONFIG_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".config") / "firearrow" / "profiles.json"


def read_profiles(file: Path) -> dict[str, Profile]:
    """Read all profiles; raise ``SettingsError`` for a file that others can read, or that is not one of profiles."""
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & OTHERS:
                raise SettingsError(f"{file} may hold secrets and others can read it; run: chmod 600 {file}")
            return msgspec.json.decode(opened.read(), type=dict[str, Profile])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsError(f"the profiles in {file} cannot be read: {error}; mend or remove the file") from error


def write_profiles(file: Path, profiles: Mapping[str, Profile]) -> None:
    """Replace the file as a whole; only its owner may read it, from its first byte on."""
    whole = msgspec.json.format(msgspec.json.encode(dict(sorted(profiles.items())))) + b"\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(whole)
            opened.flush()
            os.fsync(opened.fileno())
        fresh.replace(file)
    except OSError as error:
        raise SettingsError(f"the profiles cannot be written to {file}: {error}; check the directory") from error


def chosen_profile(name: str, file: Path) -> Profile:
    """Return the profile of this name; raise ``NoSuchName`` if there is none."""
    profiles = read_profiles(file)
    if name not in profiles:
        there = ", ".join(profiles) or "none"
        how = f"firearrow profile add {name} -n HOST:PORT makes it"
        raise NoSuchName(f"there is no profile {name!r} in {file}; there are: {there}. {how}")
    return profiles[name]
