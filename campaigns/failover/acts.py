"""The acts that a group is asked for beside plain sends while it fails over, in a process on the clients' machine."""

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from campaigns.failover.group import Group, View
from campaigns.failover.network import CLIENTS
from judges.judge import JudgeProcess

PREPARE_S: Final = 120.0
FINISH_S: Final = 3_600.0


class Acts:
    """Clients of a group of ours that give back, recall, end transactions and commit; nobody for other groups."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._stack = ExitStack()
        self._process: JudgeProcess | None = None
        if group.has_acts:
            addresses = [group.address(number) for number in group.ports]
            program = [sys.executable, "-m", "campaigns.failover.our_acts", *addresses]
            process = JudgeProcess("acts", program, prefix=group.network.words(CLIENTS, []))
            self._process = self._stack.enter_context(process)
            self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._stack.close()

    def prepare(self, view: View) -> None:
        """Let acts do what the last failover must not take from them."""
        slaves = [self._group.address(number) for number in self._group.ports if number != view.master]
        self._ask({"verb": "prepare", "master": self._group.address(view.master), "slaves": slaves}, PREPARE_S)

    def finish(self) -> tuple[dict[str, int], list[str]]:
        """End the acts; return how many were answered, and every answer that does not hold."""
        found = self._ask({"verb": "finish"}, FINISH_S)
        return found.get("counts", {}), found.get("broken", [])

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        return {} if self._process is None else self._process.conversation().ask(request, dict[str, Any], seconds)
