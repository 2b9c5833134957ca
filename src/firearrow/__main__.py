"""``python -m firearrow``, and the file that ``spark-submit`` is given: the commands, as ``firearrow`` runs them."""

import sys


def main() -> None:
    """Run the command line."""
    # A file that is run by its path finds its neighbours before everything else: modules of ours would hide others.
    if not __package__ and sys.path and __file__.startswith(sys.path[0]):
        del sys.path[0]
    from firearrow.cli import main as run

    run()


if __name__ == "__main__":
    main()
