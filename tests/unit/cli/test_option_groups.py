"""Options in groups are options of the command, in the order of its parameters, and come back as the groups."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from firearrow.cli.option_groups import OptionGroup, grouped


@dataclass(frozen=True)
class Inner(OptionGroup):
    form: Annotated[str, typer.Option("--format", help="The form.")] = "plain"
    size: int = 1


@dataclass(frozen=True)
class Outer(OptionGroup):
    name: Annotated[str, typer.Option(help="The name.")]
    inner: Inner
    is_loud: Annotated[bool, typer.Option("--loud")] = False


def made() -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    @grouped
    def show(context: typer.Context, first: str, outer: Outer, last: str = "z") -> None:
        """Show what was given."""
        typer.echo(f"{context.info_name} {first} {outer} {last}")

    return app


def test_options_of_a_group_come_back_as_the_group() -> None:
    ran = CliRunner().invoke(made(), ["a", "--name", "n", "--format", "bold", "--loud", "--last", "y"])
    assert ran.exit_code == 0, ran.output
    outer = Outer(name="n", inner=Inner(form="bold", size=1), is_loud=True)
    assert ran.output == f"show a {outer} y\n"


def test_an_option_without_a_default_is_required_in_a_group_too() -> None:
    ran = CliRunner().invoke(made(), ["a"])
    assert ran.exit_code == 2
    assert "--name" in ran.output


def test_options_stand_where_the_parameter_of_their_group_stands() -> None:
    shown = CliRunner().invoke(made(), ["--help"]).output
    places = [shown.index(name) for name in ("--name", "--format", "--size", "--loud", "--last")]
    assert places == sorted(places)
    assert "Show what was given." in shown
