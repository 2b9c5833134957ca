"""Options of commands in groups by noun: typer makes one option of every parameter, and a function has few parameters.

    @dataclass(frozen=True)
    class SparkOptions(OptionGroup):
        master: Annotated[str, typer.Option(help="...")] = ""

    @app.command()
    @grouped
    def archive(topics: str, *, spark: SparkOptions) -> None: ...

The options of a group stand where its parameter stands. A group may have groups in turn.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class OptionGroup:
    """A dataclass whose fields are options of commands."""


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups, each a parameter of its own."""
    parameters = inspect.signature(command).parameters.values()
    options = list(_options(parameters))

    @functools.wraps(command)
    def called(**given: Any) -> None:  # noqa: ANN401 - options are of many types
        command(**_filled(parameters, given))

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in options}
    return called


def _options(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    for each in parameters:
        if _is_group(each):
            yield from _options(_fields(each))
        else:
            yield each.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _filled(parameters: Iterable[inspect.Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for parameters: groups made of their options, and options as they are."""
    return {
        each.name: each.annotation(**_filled(_fields(each), given)) if _is_group(each) else given[each.name]
        for each in parameters
    }


def _is_group(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    return isinstance(kind, type) and issubclass(kind, OptionGroup)


def _fields(group: inspect.Parameter) -> Iterable[inspect.Parameter]:
    return inspect.signature(group.annotation).parameters.values()
