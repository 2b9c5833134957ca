"""The command line: ``firearrow`` and its commands.

The library needs msgspec alone; the commands need the extra ``cli`` (or ``server``), and say so when it is missing.

A usage error is one line on standard error, like every other failure: what is wrong, and where to read on.
"""

import sys
from typing import cast


def main() -> None:
    """Run the ``firearrow`` command."""
    try:
        import rich  # noqa: F401 - typer itself finds out late that it is missing
        import typer

        from firearrow.cli.app import app
        from firearrow.cli.output import OutputEnded, end, flush, guarded
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        print(f"The firearrow command needs {exc.name}: pip install 'firearrow[cli]'", file=sys.stderr)
        sys.exit(1)
    # The base class of all usage errors; typer does not export it.
    usage_error = cast("type[Exception]", typer.BadParameter.__mro__[1])
    sys.stdout = guarded(sys.stdout)
    try:
        status = app(standalone_mode=False)
        flush()
        sys.exit(status)
    except OutputEnded as ended:
        sys.exit(end(ended))
    except usage_error as error:
        from firearrow.cli.usage import usage_line

        if line := usage_line(error):
            print(line, file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        print("aborted", file=sys.stderr)
        sys.exit(1)
