"""A command of ``mqadmin`` as data: its name, its options, its function, or the reason why there is none."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from firearrow.cli.mqadmin.session import Session


class VerbOption(Struct, frozen=True):
    """An option, short and long. ``alone`` is one without a value, ``why_not`` why it cannot be honoured here."""

    short: str
    long: str
    help: str = ""
    required: bool = False
    alone: bool = False
    why_not: str = ""
    is_idle: bool = False
    """Whether it has no effect on topics that exist here, in Apache's tool neither."""


class OptionValues:
    """The options of a command line, by their short names. Values have no blanks around them."""

    def __init__(self, values: dict[str, str | bool]) -> None:
        self._values = values

    def has(self, short: str) -> bool:
        """Whether an option is given."""
        return short in self._values

    def text(self, short: str, otherwise: str = "") -> str:
        """Return the value of an option."""
        return str(self._values.get(short, otherwise)).strip()

    def number(self, short: str, otherwise: int = 0) -> int:
        """Return the value of an option as a number."""
        if short not in self._values:
            return otherwise
        text = self.text(short)
        try:
            return int(text)
        except ValueError:
            raise SettingsError(f"-{short} is {text!r}; give a number") from None

    def truth(self, short: str, otherwise: bool = False) -> bool:
        """Return the value of an option as Java reads it: only ``true``, in any case, is true."""
        return self.text(short).lower() == "true" if short in self._values else otherwise


Run = Callable[["Session", OptionValues], Awaitable[None]]


class Verb(Struct, frozen=True):
    """A command. ``either`` names options of which exactly one of each tuple must be given."""

    name: str
    help: str
    options: tuple[VerbOption, ...] = ()
    run: Run | None = None
    why_not: str = ""
    """The reason why there is no such command here, and what to use instead."""
    either: tuple[tuple[str, ...], ...] = ()


HELP: Final = VerbOption("h", "help", "Print help", alone=True)
NAME_SERVERS: Final = VerbOption(
    "n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'"
)


def usage_needed() -> NoReturn:
    """End a command that got too few options."""
    raise UsageNeeded


class UsageNeeded(Exception):
    """The options do not say what to do: Apache's tool prints the usage then, and ends as if all were well."""
