"""Clients' requests to a group while it fails over, act by act; each act checks afterwards that its answers hold.

F9 messages given back come again, or lie among the dead letters; F10 a recalled message is never delivered, any other
timed one is; F11 transactions end as they were ended; F12 sends that wait for nothing move nothing that was read; F13
committed offsets survive; F14 changes of topics, groups and offsets hold, and deletions; F15 slaves refuse deletions
and commits.
"""

from typing import Final

from tests.simulation.broker.acts.act import Act
from tests.simulation.broker.acts.commits import Commits
from tests.simulation.broker.acts.send_backs import SendBacks
from tests.simulation.broker.acts.slave_changes import SlaveChanges
from tests.simulation.broker.acts.tables import Operator
from tests.simulation.broker.acts.timers import Timers
from tests.simulation.broker.acts.transactions import Halves
from tests.simulation.broker.acts.unawaited import Unawaited

ACTS: Final[tuple[type[Act], ...]] = (SendBacks, Timers, Halves, Unawaited, Commits, SlaveChanges, Operator)
