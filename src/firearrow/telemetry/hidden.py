"""Keeps secrets out of the texts that are made of settings, bodies and requests."""

from typing import Final

from msgspec import Struct

SECRETS: Final = frozenset({"key_password", "password", "secret", "secret_key", "security_token"})
"""The names of fields that hold secrets, whatever they are a part of."""
HIDDEN: Final = "..."


def hidden_repr(value: Struct) -> str:
    """Return the ``repr`` of a struct, with dots in the places of secrets; a class takes it as its ``__repr__``."""
    values = ((name, getattr(value, name)) for name in value.__struct_fields__)
    shown = (f"{name}={HIDDEN if name in SECRETS and held else held!r}" for name, held in values)
    return f"{type(value).__name__}({', '.join(shown)})"
