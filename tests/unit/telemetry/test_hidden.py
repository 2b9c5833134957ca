"""No text that is made of an object shows a secret: every class of ours that has a field for one is tried."""

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import firearrow
from firearrow.access.settings import AccessConfig
from firearrow.broker.settings.config import BrokerSettings
from firearrow.client.producer.settings import ProducerSettings
from firearrow.protocol.requests.admin.auth import UpdateAndCreateAclConfig
from firearrow.runtime.tls_settings import ClientTls, ServerTls
from firearrow.telemetry.hidden import hidden_repr

MARK = "marker-7f3a9c"
NAMES_OF_SECRETS = re.compile("secret|passw|credential|token|init_authentication_user")
HOLD_NO_SECRET = {"secrets_from"}
CLASSES = 14
"""The least number of classes that have such a field: if there are fewer, the search has found too little."""


def modules() -> Iterator[Any]:
    """All modules whose libraries are installed."""
    for found in pkgutil.walk_packages(firearrow.__path__, "firearrow.", onerror=lambda _name: None):
        if found.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError as missing:
            if (missing.name or "firearrow").startswith("firearrow"):
                raise


def fields_of(kind: type[Any]) -> list[str]:
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "_fields", ()))


def holders() -> dict[type[Any], list[str]]:
    """The classes with fields for secrets, and those fields."""
    found: dict[type[Any], list[str]] = {}
    for module in modules():
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__.startswith("firearrow"):
                secret = [name for name in fields_of(kind) if NAMES_OF_SECRETS.search(name)]
                if set(secret) - HOLD_NO_SECRET:
                    found[kind] = secret
    return found


def required(kind: type[Any]) -> list[str]:
    if issubclass(kind, msgspec.Struct):
        return [field.name for field in msgspec.structs.fields(kind) if field.required]
    if dataclasses.is_dataclass(kind):
        nothing = dataclasses.MISSING
        return [field.name for field in dataclasses.fields(kind) if field.default is field.default_factory is nothing]
    return [name for name in fields_of(kind) if name not in kind._field_defaults]


def made(kind: type[Any], secret: list[str]) -> Any:
    """An object whose fields for secrets hold the marker."""
    return kind(**{**dict.fromkeys(required(kind), ""), **dict.fromkeys(secret, MARK)})


def test_no_object_shows_a_secret() -> None:
    found = holders()
    assert len(found) >= CLASSES
    showing = [kind for kind, secret in found.items() for text in (repr, str) if MARK in text(made(kind, secret))]
    assert showing == []


@pytest.mark.parametrize(
    "holder",
    [
        BrokerSettings(tls=ServerTls(key_password=MARK), access=AccessConfig(init_authentication_user=MARK)),
        ProducerSettings(secret_key=MARK, access_key="a", security_token=MARK, tls=ClientTls(key_password=MARK)),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_no_object_shows_the_secret_of_a_part(holder: object) -> None:
    assert MARK not in f"{holder!r}{holder}"


def test_a_secret_is_shown_to_be_there() -> None:
    request = UpdateAndCreateAclConfig(access_key="a", secret_key=MARK)
    assert "access_key='a', secret_key='...'" in repr(request)
    assert "secret_key=None" in repr(UpdateAndCreateAclConfig(access_key="a"))


def test_the_test_sees_a_class_that_shows_its_secret() -> None:
    class Careless(msgspec.Struct):
        password: str

    class Careful(msgspec.Struct):
        password: str
        __repr__ = hidden_repr

    assert MARK in repr(made(Careless, ["password"]))
    assert MARK not in repr(made(Careful, ["password"]))
