"""Apache's ``mqadmin`` by its names, options and columns, without a JVM.

Works on our clusters and on Apache's. ``catalogue`` lists the commands, a module of a subject has their functions.
"""

import sys


def main() -> None:
    """Run ``mqadmin``."""
    from firearrow.cli.mqadmin.startup import start
    from firearrow.cli.output import OutputEnded, end, flush, guarded

    sys.stdout = guarded(sys.stdout)
    try:
        status = start(sys.argv[1:])
        flush()
    except OutputEnded as ended:
        status = end(ended)
    sys.exit(status)
