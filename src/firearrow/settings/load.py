"""Loads settings from layers; a layer may use either name of a setting."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from firearrow.errors import SettingsError
from firearrow.settings.properties import parse_properties
from firearrow.settings.schema import Leaf, build, leaves

T = TypeVar("T", bound=msgspec.Struct)

ENVIRONMENT_PREFIX: Final = "FIREARROW_"
ENVIRONMENT: Final = "the environment"


class Source(msgspec.Struct, frozen=True):
    """One layer of settings, and its name for error messages."""

    name: str
    values: Mapping[str, Any]

    @classmethod
    def from_text(cls, name: str, text: str) -> "Source":
        """Read a settings file: TOML when its name says so, else Java properties."""
        if not name.endswith(".toml"):
            return cls(name, parse_properties(text))
        try:
            return cls(name, _flat(tomllib.loads(text)))
        except tomllib.TOMLDecodeError as exc:
            raise SettingsError(f"{name} is not valid TOML: {exc}") from exc

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Source":
        """Take the variables that start with ``FIREARROW_``; the rest of the name is a setting in snake case."""
        mine = {
            key.removeprefix(ENVIRONMENT_PREFIX).lower(): value
            for key, value in environment.items()
            if key.startswith(ENVIRONMENT_PREFIX)
        }
        return cls(ENVIRONMENT, mine)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> "Source":
        """Take the command line's flags; those not given (None) are left out."""
        return cls("the command line", {key: value for key, value in flags.items() if value is not None})


class LoadResult(msgspec.Struct, Generic[T], frozen=True):
    """The loaded settings, and warnings for the user."""

    value: T
    warnings: tuple[str, ...] = ()


def load(kind: type[T], sources: Iterable[Source], *, ignored: Mapping[str, str] | None = None) -> LoadResult[T]:
    """Return a ``kind`` in which later sources override earlier ones.

    ``ignored`` maps known keys without effect to the reason, which becomes a warning. Unknown names in the environment
    are ignored, because other programs share it; elsewhere an unknown key causes a warning with the nearest known key.
    """
    by_name = _names(kind)
    values: dict[tuple[str, ...], Any] = {}
    warnings = []
    for source in sources:
        for key, given in source.values.items():
            leaf = by_name.get(key)
            if leaf is not None:
                values[leaf.path] = _convert(leaf, given, key, source.name)
            elif ignored and key in ignored:
                warnings.append(f"{key} in {source.name} has no effect: {ignored[key]}")
            elif source.name != "the environment":
                warnings.append(_unknown(key, source.name, by_name))
    return LoadResult(cast("T", build(kind, values)), tuple(warnings))


def _names(kind: type[msgspec.Struct]) -> dict[str, Leaf]:
    """Return every setting by its names; a short name that two parts have is the first one's."""
    by_name: dict[str, Leaf] = {}
    for leaf in leaves(kind):
        for name in (leaf.name, leaf.apache_name, ".".join(leaf.path)):
            by_name.setdefault(name, leaf)
    return by_name


def _convert(leaf: Leaf, given: Any, key: str, where: str) -> Any:
    text = given.strip() if isinstance(given, str) else given
    try:
        return msgspec.convert(text, leaf.annotation, strict=False)
    except msgspec.ValidationError as exc:
        bounds = f" (allowed: {leaf.bounds})" if leaf.bounds else ""
        name = f"{ENVIRONMENT_PREFIX}{key.upper()}" if where == ENVIRONMENT else key
        raise SettingsError(f"{name}={given!r} in {where} is not usable: {exc}{bounds}; change it") from exc


def _unknown(key: str, where: str, known: Mapping[str, Leaf]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{key} in {where} is not a setting and was ignored{hint}"


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
