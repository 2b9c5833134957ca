"""Run seeds from the command line: ``python -m tests.simulation.client FIRST COUNT``."""

import logging
import sys
import time

from tests.simulation.client.chaos import run


def main() -> None:
    """Run and print."""
    logging.disable(logging.CRITICAL)
    first, count = int(sys.argv[1]), int(sys.argv[2])
    failed, begun, acknowledged, repeated = [], time.perf_counter(), 0, 0
    for seed in range(first, first + count):
        try:
            story = run(seed)
        except Exception as error:  # noqa: BLE001 - every seed is to be heard
            failed.append(seed)
            notes = "\n".join(getattr(error, "__notes__", [])[-1:])
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}\n{notes[-3000:]}", flush=True)
            continue
        acknowledged += len(story.acknowledged)
        repeated += sum(times - 1 for times in story.handled.values())
    passed = time.perf_counter() - begun
    print(
        f"{count} seeds, {len(failed)} failed {failed}, {acknowledged} acknowledged, {repeated} again, {passed:.1f} s"
    )


if __name__ == "__main__":
    main()
