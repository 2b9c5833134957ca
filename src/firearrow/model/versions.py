"""Version numbers and language codes that every command carries.

A version travels as its position in Java's ``MQVersion.Version``: one position for each snapshot and each release, so
from 4.0.0 on a release is 213 + 200 * (major - 4) + 20 * minor + 2 * patch, and the snapshot before it one less.
"""

import enum
from collections.abc import Iterator
from typing import Final


def _names() -> Iterator[str]:
    first = (
        "SNAPSHOT ALPHA1 BETA1 BETA2 BETA3 BETA4 BETA5 BETA6_SNAPSHOT BETA6 BETA7_SNAPSHOT BETA7 BETA8_SNAPSHOT BETA8"
    )
    for suffix in f"{first} BETA9_SNAPSHOT BETA9 FINAL".split():
        yield f"V3_0_0_{suffix}"
    for major, minor, patches in _release_lines():
        for patch in patches:
            yield f"V{major}_{minor}_{patch}_SNAPSHOT"
            yield f"V{major}_{minor}_{patch}"
    yield "HIGHER_VERSION"


def _release_lines() -> Iterator[tuple[int, int, range]]:
    yield 3, 0, range(1, 16)
    for minor in range(1, 10):
        yield 3, minor, range(0 if minor < 3 else 1, 10)
    for major in (4, 5):
        for minor in range(10):
            yield major, minor, range(10)


VERSION_NAMES: Final = tuple(_names())
_NUMBERS: Final = {name: number for number, name in enumerate(VERSION_NAMES)}


def version_number(release: str) -> int:
    """The number that stands for a release such as ``"5.5.0"``."""
    return _NUMBERS["V" + release.replace(".", "_")]


def version_name(number: int) -> str:
    """``V5_5_0`` for 513; a number that is not listed yet is HIGHER_VERSION, as Java prints it."""
    return VERSION_NAMES[number] if 0 <= number < len(VERSION_NAMES) else VERSION_NAMES[-1]


CURRENT_VERSION: Final = version_number("5.5.0")
"""The version that this package reports: that of Apache's servers whose behaviour it has."""


class LanguageCode(enum.IntEnum):
    """The language of the peer: the name in a JSON header, the number in a compact one."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13
