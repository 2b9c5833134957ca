"""``firearrow failover``: the state of a group, and what operators do with one."""

import asyncio
import shutil
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from msgspec.structs import replace

from firearrow.broker.failover.elections import LARGEST_CHOSEN, elected, elected_by_name
from firearrow.broker.failover.group_values import GroupView
from firearrow.cli.broker import read_settings, store_directory
from firearrow.cli.cluster import fail, reach_of, run
from firearrow.cli.failover.place import Act, Config, GroupPlace, PlaceOptions
from firearrow.cli.option_groups import grouped
from firearrow.errors import CoordinatorFailed, NotNow, SettingsError
from firearrow.model.group_state import GroupState

LOOK_S: Final = 0.2

failover = typer.Typer(
    add_completion=False, help="Groups with a coordinator: state, elections by name, backups.", no_args_is_help=True
)

Replica = Annotated[int, typer.Option("--replica", min=1, help="brokerId of the replica.")]
Store = Annotated[
    Path | None, typer.Option("--store", help="Directory of the replica, if the settings file names none.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question.")]


@failover.command()
@grouped
def show(context: typer.Context, where: PlaceOptions) -> None:
    """Print the state of a group: epoch, master, in-sync set, and how far its live members are."""
    from firearrow.cli.failover.losses import replicas

    place = where.place(context)
    seen = run(context, place.seen)
    if seen.group is None:
        typer.echo(f"{place} does not exist: its first broker makes it")
        raise typer.Exit(1)
    typer.echo(msgspec.json.encode(seen.group).decode())
    for replica in run(context, lambda: replicas(seen, reach_of(context))):
        typer.echo(str(replica))


@failover.command()
@grouped
def wait(
    context: typer.Context,
    replica: Annotated[list[int], typer.Option("--replica", min=1, help="brokerId; may be given more than once.")],
    where: PlaceOptions,
    seconds: Annotated[float, typer.Option("--seconds", help="How long to wait.")] = 600.0,
) -> None:
    """Wait until replicas are alive and in sync, after one was added, replaced or started again."""
    place = where.place(context)
    group = run(context, lambda: _in_sync(place, replica, seconds))
    typer.echo(f"in sync {list(group.iss)}, epoch {group.epoch}, master {group.master}")


async def _in_sync(place: GroupPlace, wanted: list[int], seconds: float) -> GroupState:
    seen, trouble = GroupView(None, None, {}), ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    seen, trouble = await place.seen(), ""
                except CoordinatorFailed as error:
                    trouble = f"; the coordinator does not answer: {error}"
                if seen.group is not None and seen.group.master and set(wanted) <= set(seen.group.iss) & set(seen.live):
                    return seen.group
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        in_sync = [] if seen.group is None else list(seen.group.iss)
        raise NotNow(
            f"{place}: replicas {wanted} are not all in sync and alive after {seconds:g} s; in sync are {in_sync}, "
            f"alive {sorted(seen.live)}{trouble}. Their logs say why"
        ) from None


@failover.command("hand-over")
@grouped
def hand_over(context: typer.Context, replica: Replica, where: PlaceOptions) -> None:
    """Make a replica that is in sync the master. Sends on their way are tried again by their producers."""
    place = where.place(context)
    new = run(context, lambda: _handed_over(place, replica))
    typer.echo(f"replica {replica} is elected for epoch {new.epoch}, in sync {list(new.iss)}")


async def _handed_over(place: GroupPlace, chosen: int) -> GroupState:
    seen = await place.seen()
    group = _existing(place, seen)
    if group.master == chosen:
        raise NotNow(f"replica {chosen} is the master already")
    if chosen not in group.iss or chosen not in seen.live:
        raise NotNow(
            f"replica {chosen} cannot take over: in sync are {list(group.iss)}, alive {sorted(seen.live)}. Start it, "
            f"and wait for it with firearrow failover wait --replica {chosen}"
        )
    new = elected(group, chosen, frozenset(seen.live))
    await place.act("hand over", seen, new, [])
    return new


@failover.command("set-in-sync-replicas")
@grouped
def set_in_sync_replicas(
    context: typer.Context,
    count: Annotated[int, typer.Option("--count", min=1, help="Replicas, the master included.")],
    where: PlaceOptions,
) -> None:
    """Change how many replicas must be in sync for a message to be taken; settings files count for a new group only."""
    place = where.place(context)
    new = run(context, lambda: _with_count(place, count))
    typer.echo(f"messages are taken while {new.min_iss} replicas are in sync; now {list(new.iss)}")


async def _with_count(place: GroupPlace, count: int) -> GroupState:
    seen = await place.seen()
    group = _existing(place, seen)
    new = replace(group, min_iss=count, iss_seq=group.iss_seq + 1)
    await place.act("set in-sync replicas", seen, new, [])
    return new


@failover.command()
@grouped
def elect(
    context: typer.Context,
    replica: Replica,
    where: PlaceOptions,
    epoch: Annotated[
        int,
        typer.Option(
            "--epoch",
            min=0,
            max=LARGEST_CHOSEN,
            help="Least epoch, after etcd lost its data, was restored from a backup, or holds a state out of range.",
        ),
    ] = 0,
    yes: Yes = False,
) -> None:
    """Make a replica the master against the rules, in sync or not. All others join anew, and cut what it lacks.

    Prints what may be lost and asks. The act is kept with time and user; see firearrow failover acts.
    """
    place = where.place(context)
    from firearrow.cli.failover.losses import losses, replicas

    seen = run(context, place.seen_sound_or_not)
    if seen.group is None and seen.raw is not None and not epoch:
        fail(context, f"{place} has a state that no replica obeys; give --epoch above those that replicas know")
    if seen.group is None and not epoch:
        fail(context, f"{place} does not exist; check the names, or give --epoch if etcd lost its data")
    group = seen.group or _unknown(place)
    if group.directories and replica not in (known := _known(group, seen)):
        fail(context, f"{place} never had a replica {replica}: it has had {known}")
    said = losses(group, replica, seen.live, run(context, lambda: replicas(seen, reach_of(context))))
    new = _named(context, group, replica, epoch)
    _ask(place, new, said, yes=yes)
    run(context, lambda: place.act("elect", seen, new, said))
    typer.echo(f"replica {replica} leads epoch {new.epoch}; start it if it does not run")


@failover.command()
@grouped
def acts(context: typer.Context, where: PlaceOptions) -> None:
    """Print what operators changed by hand in a group, the oldest first, as JSON lines."""
    place = where.place(context)

    async def read() -> list[bytes]:
        async with place.open() as etcd:
            return await etcd.acts()

    for record in run(context, read):
        typer.echo(msgspec.json.encode(msgspec.json.decode(record, type=Act)).decode())


@failover.command()
def backup(
    context: typer.Context,
    to: Annotated[Path, typer.Option("--to", help="New directory of the backup.")],
    config: Config = None,
    store: Store = None,
) -> None:
    """Copy the directory of a stopped replica, with a list of its files. The others of its group go on meanwhile."""
    from firearrow.cli.failover.backups import back_up

    made = run(context, lambda: back_up(_directory(config, store), to))
    typer.echo(f"{len(made.files)} files of epoch {made.epoch} are in {to}")


@failover.command()
@grouped
def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Option("--from", help="Directory of a backup.")],
    replica: Replica,
    where: PlaceOptions,
    store: Store = None,
    yes: Yes = False,
) -> None:
    """Begin a group again with a backup. No broker of it may run; all others start with empty directories then."""
    from firearrow.cli.failover.backups import put_back, read_backup

    place = where.place(context)
    seen = run(context, place.seen)
    if seen.live:
        fail(context, f"replicas {sorted(seen.live)} of {place} run: stop all of them first")
    held = run(context, lambda: read_backup(source))
    group = seen.group or _unknown(place)
    new = _named(context, group, replica, held.epoch + 1)
    now = "is not there" if seen.group is None else f"is in epoch {group.epoch}, in sync {list(group.iss)}"
    said = [f"{place} {now}", f"everything since the backup of {held.time} is lost"]
    _ask(place, new, said, yes=yes)

    async def begin_again() -> Path:
        target = _directory(where.config, store)
        put_back(source, held, target)
        try:
            await place.act("restore", seen, new, said)
        except BaseException:
            shutil.rmtree(target)  # it was empty, and must be so for another try
            raise
        return target

    target = run(context, begin_again)
    typer.echo(f"start replica {replica} with {target}; empty the directories of all others before they start")


def _directory(config: Path | None, store: Path | None) -> Path:
    if store is not None:
        return store
    if config is None:
        raise SettingsError("no directory is given: write --store DIRECTORY, or -c FILE of the broker")
    return store_directory(read_settings(config, {}))


def _unknown(place: GroupPlace) -> GroupState:
    """The state of a group of which the coordinator knows nothing."""
    return GroupState(epoch=0, master=0, iss=(), iss_seq=0, min_iss=place.min_iss)


def _named(context: typer.Context, group: GroupState, replica: int, epoch: int) -> GroupState:
    try:
        return elected_by_name(group, replica, epoch)
    except SettingsError as error:
        fail(context, str(error))


def _known(group: GroupState, seen: GroupView) -> list[int]:
    return sorted({*dict(group.directories), *group.iss, *seen.live})


def _ask(place: GroupPlace, new: GroupState, said: list[str], *, yes: bool) -> None:
    """Say what an act means, and end the command unless it is wanted nevertheless."""
    for line in said:
        typer.echo(line)
    if not yes:
        typer.confirm(f"Shall replica {new.master} of {place} lead epoch {new.epoch}?", abort=True)


def _existing(place: GroupPlace, seen: GroupView) -> GroupState:
    if seen.group is None:
        raise SettingsError(f"{place} does not exist; check --cluster and --broker-name")
    return seen.group
