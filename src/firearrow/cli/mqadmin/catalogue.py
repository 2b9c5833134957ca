"""The table of commands: every one of Apache's ``mqadmin`` 5.5.0."""

import difflib
from typing import Final

from firearrow.cli.mqadmin import out_of_scope
from firearrow.cli.mqadmin.account import policies, users
from firearrow.cli.mqadmin.broker import exports, replication, settings, upkeep
from firearrow.cli.mqadmin.cluster import listing, name_servers
from firearrow.cli.mqadmin.group import changes as group_changes
from firearrow.cli.mqadmin.group import clients, offsets, progress
from firearrow.cli.mqadmin.message import lookup, reading, sending
from firearrow.cli.mqadmin.topic import changes as topic_changes
from firearrow.cli.mqadmin.topic import views
from firearrow.cli.mqadmin.verb import Verb

VERBS: Final[tuple[Verb, ...]] = (
    *topic_changes.VERBS,
    *views.VERBS,
    *group_changes.VERBS,
    *progress.VERBS,
    *clients.VERBS,
    *offsets.VERBS,
    *lookup.VERBS,
    *reading.VERBS,
    *sending.VERBS,
    *listing.VERBS,
    *name_servers.VERBS,
    *settings.VERBS,
    *upkeep.VERBS,
    *replication.VERBS,
    *exports.VERBS,
    *users.VERBS,
    *policies.VERBS,
    *out_of_scope.VERBS,
)
_BY_NAME: Final = {verb.name.lower(): verb for verb in VERBS}


def found_verb(name: str) -> Verb | None:
    """Return the command with a name, in any case."""
    return _BY_NAME.get(name.lower())


def near_verbs(name: str) -> list[str]:
    """Return the names of commands that are spelt nearly so."""
    return [_BY_NAME[near].name for near in difflib.get_close_matches(name.lower(), _BY_NAME, n=1)]
