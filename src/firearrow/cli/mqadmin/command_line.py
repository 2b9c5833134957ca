"""Reads the options of a command as Apache's tool does (commons-cli), and prints its usage in the same form."""

import argparse
import textwrap
from typing import Final, NoReturn

from firearrow.cli.mqadmin.verb import HELP, NAME_SERVERS, OptionValues, Verb, VerbOption

WIDTH: Final = 110


class WrongOptions(Exception):
    """The options of a command line are wrong."""


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongOptions(message)


def options_of(verb: Verb) -> dict[str, VerbOption]:
    """Return the options of a command, with those that every command has, by short name in the order of usage."""
    found = {option.short: option for option in (HELP, NAME_SERVERS, *verb.options)}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def read_options(verb: Verb, words: list[str]) -> OptionValues:
    """Read the options; raise ``WrongOptions`` if they are not those of the command."""
    parser = _ArgumentParser(prog=f"mqadmin {verb.name}", add_help=False, allow_abbrev=False)
    known = options_of(verb)
    for option in known.values():
        names = dict.fromkeys((f"-{option.short}", f"--{option.long}", f"-{option.long}"))
        if option.alone:
            parser.add_argument(*names, dest=option.short, action="store_true", default=argparse.SUPPRESS)
        else:
            parser.add_argument(*names, dest=option.short, default=argparse.SUPPRESS)
    values, rest = parser.parse_known_args(words)
    given: dict[str, str | bool] = vars(values)
    unknown = next((word for word in rest if word.startswith("-")), None)
    if unknown is not None:
        raise WrongOptions(f"Unrecognized option: {unknown}")
    if "h" not in given:
        _check(verb, known, given)
    return OptionValues(given)


def _check(verb: Verb, known: dict[str, VerbOption], given: dict[str, str | bool]) -> None:
    missing = [option.short for option in known.values() if option.required and option.short not in given]
    grouped = [group for group in verb.either if not any(short in given for short in group)]
    if missing or grouped:
        names = [*missing, *(_group(known, group) for group in grouped)]
        raise WrongOptions(f"Missing required option{'s' if len(names) > 1 else ''}: {', '.join(names)}")
    for group in verb.either:
        chosen = [short for short in group if short in given]
        if len(chosen) > 1:
            raise WrongOptions(f"The options -{chosen[1]} and -{chosen[0]} exclude each other: give one of them")


def _group(known: dict[str, VerbOption], group: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"-{short} {known[short].help}" for short in group) + "]"


def usage(verb: Verb, called: str = "") -> str:
    """Return the usage of a command, or of a script that is called by its own name."""
    known = options_of(verb)
    grouped = {short: group for group in verb.either for short in group}
    words: list[str] = []
    for short, option in known.items():
        if short in grouped:
            if short == min(grouped[short], key=str.lower):
                words.append(" | ".join(_short(known[each]) for each in sorted(grouped[short])))
        else:
            words.append(_short(option) if option.required else f"[{_short(option)}]")
    start = f"usage: {called or f'mqadmin {verb.name}'} "
    lines = textwrap.wrap(start + " ".join(words), WIDTH, subsequent_indent=" " * 7, break_on_hyphens=False)
    left = {short: _both(option) for short, option in known.items()}
    margin = max(len(text) for text in left.values()) + 3
    for short, option in known.items():
        told = textwrap.wrap(option.help, WIDTH - margin) or [""]
        lines.append(f"{left[short]:<{margin}}{told[0]}".rstrip())
        lines += [" " * margin + line for line in told[1:]]
    return "\n".join(lines) + "\n"


def _short(option: VerbOption) -> str:
    return f"-{option.short}" if option.alone else f"-{option.short} <arg>"


def _both(option: VerbOption) -> str:
    return f" -{option.short},--{option.long}" + ("" if option.alone else " <arg>")
