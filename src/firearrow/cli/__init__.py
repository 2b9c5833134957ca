"""The command line: ``firearrow`` and its commands.

The library needs msgspec alone; the commands need the extra ``cli`` (or ``server``), and say so when it is missing.
"""

import sys


def main() -> None:
    """Run the ``firearrow`` command."""
    try:
        import rich  # noqa: F401 - typer itself finds out late that it is missing

        from firearrow.cli.app import app
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        print(f"The firearrow command needs {exc.name}: pip install 'firearrow[cli]'", file=sys.stderr)
        sys.exit(1)
    app()
