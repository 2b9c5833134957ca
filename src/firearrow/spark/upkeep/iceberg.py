"""Upkeep of Iceberg tables through pyiceberg: files are replaced in commits that a stream may cross.

pyiceberg expires snapshots and appends or overwrites files; it neither compacts nor removes files. Here files are read
by its scan, written as the archive writes them, and replaced by an ``overwrite`` commit (pyiceberg has no ``replace``).
A commit that meets another one is made anew from the same files while those that it replaces are in the table; if one
of them is gone, its group is left to the next run. So neither a stream nor this waits for the other.

Files are removed only when no version has them: after an expiry those that the expired versions had, and by age those
that no version ever had.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import iceberg
from firearrow.spark.lake.files import DataFile, write_files
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.partitioning import require_supported
from firearrow.spark.lake.storage import filesystem
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.work import StepResult, Upkeep, bins, time_column

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile as ManifestFile
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

ATTEMPTS: Final = 50
PASSES: Final = 10
GROUPS_PER_COMMIT: Final = 16


def _load(table: LakeTable) -> "Table":
    return iceberg.catalog(table).load_table(table.name)


# -- rewriting files


class _Group:
    """Files that are replaced together, and what replaces them."""

    def __init__(self, old: "list[ManifestFile]", new: list[DataFile], rows: int) -> None:
        self.old, self.new = old, new
        self.rows_less = rows - sum(file.rows for file in new)
        self._made: tuple[tuple[int, int], list[ManifestFile]] | None = None

    def manifest_files(self, change: "Transaction", found: "Table") -> "list[ManifestFile]":
        """The new files as manifests list them: made once, so that a repeated commit is quick."""
        form = (found.metadata.current_schema_id, found.metadata.default_spec_id)
        if self._made is None or self._made[0] != form:
            self._made = form, [iceberg.manifest_file(change, found, file) for file in self.new]
        return self._made[1]


def compact(table: LakeTable, work: Upkeep) -> StepResult:
    """Rewrite small files of each partition as larger ones; the rows stay what they are."""
    found = _load(table)
    by_partition: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in _planned(found, table):
        if task.file.spec_id == found.metadata.default_spec_id:
            by_partition[task.file.partition].append(task)
    groups = [
        each
        for tasks in by_partition.values()
        for each in bins(_by_age(tasks, found), _size, work.file_bytes, work.min_files)
    ]
    done = _rewrite(table, groups, "compaction")
    return StepResult("compact", done.files, done.made)


def _by_age(tasks: "list[FileScanTask]", found: "Table") -> "list[FileScanTask]":
    """Files in the order of their names' batches: an archive names files by query and batch."""
    root = found.location()
    return sorted(tasks, key=lambda task: task.file.file_path.removeprefix(root))


def _size(task: "FileScanTask") -> int:
    return int(task.file.file_size_in_bytes)


def delete(table: LakeTable, where: str, step: str = "delete") -> StepResult:
    """Delete rows by rewriting the files that have them, until a look at the whole table finds none."""
    files = made = rows = 0
    clean: set[str] = set()
    for _ in range(PASSES):
        found = _load(table)
        condition = _condition(found, where, table)
        tasks = [task for task in _planned(found, table, condition) if task.file.file_path not in clean]
        if not tasks:
            return StepResult(step, files, made, rows)
        done = _rewrite(table, [[task] for task in tasks], "deletion", condition, clean)
        files, made, rows = files + done.files, made + done.made, rows + done.rows
    raise Unsupported(
        f"rows that match came as fast as they were deleted from table {table.called}; {rows:,} are gone. Run it again"
    )


def expired_rows(table: LakeTable, work: Upkeep, now_ms: int) -> StepResult:
    """Delete the rows that are older than they may be."""
    column = time_column(work.ttl_column, iceberg.schema(table).names, table.called)
    limit = datetime.fromtimestamp((now_ms - (work.ttl_ms or 0)) / 1000, UTC)
    return delete(table, f"{column} < '{limit:%Y-%m-%dT%H:%M:%S.%f}+00:00'", "ttl")


def _planned(found: "Table", table: LakeTable, condition: "BooleanExpression | None" = None) -> "list[FileScanTask]":
    from pyiceberg.expressions import AlwaysTrue

    tasks = list(found.scan(row_filter=condition or AlwaysTrue()).plan_files())
    if any(task.delete_files for task in tasks):
        raise Unsupported(
            f"table {table.called} has delete files, which pyiceberg cannot rewrite. Nothing was changed. "
            "Use --native with Iceberg's own runtime in Spark"
        )
    return tasks


def _condition(found: "Table", where: str, table: LakeTable) -> "BooleanExpression":
    """A condition as pyiceberg reads it; raise if it cannot."""
    from pyiceberg.expressions import parser
    from pyiceberg.expressions.visitors import bind

    try:
        condition = parser.parse(where)
        bind(found.schema(), condition, case_sensitive=True)
    except Exception as wrong:  # pyparsing's, ValueError, TypeError: whatever the condition provokes
        reason = str(wrong).splitlines()[0]
        raise SettingsError(
            f"condition {where!r} cannot be used on table {table.called}: {reason}. Compare columns with values, "
            f"such as id = 7 or item in ('a', 'b'); columns are {', '.join(iceberg.schema(table).names)}"
        ) from wrong
    return condition


def _rewrite(
    table: LakeTable,
    groups: "Sequence[Sequence[FileScanTask]]",
    why: str,
    without: "BooleanExpression | None" = None,
    clean: set[str] | None = None,
) -> StepResult:
    """Rewrite groups of files, without the rows of a condition, a few groups a commit."""
    total = StepResult(why)
    for start in range(0, len(groups), GROUPS_PER_COMMIT):
        written: list[_Group] = []
        for tasks in groups[start : start + GROUPS_PER_COMMIT]:
            group = _written(table, tasks, why, without)
            if group is None:
                if clean is not None:
                    clean.update(task.file.file_path for task in tasks)
                continue
            written.append(group)
        kept = _replace(table, written, why) if written else []
        files, made = sum(len(each.old) for each in kept), sum(len(each.new) for each in kept)
        rows = sum(each.rows_less for each in kept)
        total = StepResult(why, total.files + files, total.made + made, total.rows + rows)
    return total


def _written(
    table: LakeTable, tasks: "Sequence[FileScanTask]", why: str, without: "BooleanExpression | None"
) -> _Group | None:
    """Write the rows of some files anew; None if a condition has no row in them."""
    found = _load(table)
    rules, columns = iceberg.rules_of(found), iceberg.schema(table)
    require_supported(rules, columns, table.called)
    keep = _complement(found, without) if without is not None else None
    batches = _rows(found, tasks, keep)
    files = write_files(batches, f"{found.location()}/data", why, rules, iceberg.storage_of(found))
    rows = sum(task.file.record_count for task in tasks)
    group = _Group([task.file for task in tasks], files, rows)
    if without is not None and group.rows_less == 0:
        _remove(found, [file.path for file in files])
        return None
    return group


def _rows(found: "Table", tasks: "Sequence[FileScanTask]", keep: "pc.Expression | None") -> "Iterator[pa.RecordBatch]":
    """The rows of files with the columns that the table has now, one file in memory at a time."""
    import pyarrow as pa
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    scan = ArrowScan(found.metadata, found.io, found.schema(), AlwaysTrue())
    wanted = schema_to_pyarrow(found.schema(), include_field_ids=False)
    for task in tasks:
        for batch in scan.to_record_batches([task]):
            rows = pa.Table.from_batches([batch]).cast(wanted)
            yield from (rows if keep is None else rows.filter(keep)).to_batches()


def _complement(found: "Table", condition: "BooleanExpression") -> "pc.Expression":
    """Return an expression that keeps the rows for which a condition is not true: false, or null."""
    from pyiceberg.expressions.visitors import bind, rewrite_not
    from pyiceberg.io.pyarrow import expression_to_pyarrow

    exact = _null_for_null(rewrite_not(condition))
    matches = expression_to_pyarrow(bind(found.schema(), exact, case_sensitive=True), found.schema())
    return ~matches | matches.is_null()


def _null_for_null(condition: "BooleanExpression") -> "BooleanExpression":
    """The same condition without NOT over null: Arrow takes null for a value that is not in a list."""
    from pyiceberg.expressions import And, NotIn, NotNull, Or

    if isinstance(condition, And | Or):
        return type(condition)(_null_for_null(condition.left), _null_for_null(condition.right))
    return And(condition, NotNull(condition.term)) if isinstance(condition, NotIn) else condition  # type: ignore[call-arg]


def _replace(table: LakeTable, groups: list[_Group], why: str) -> list[_Group]:
    """Replace files in one commit; return the groups of which all files were still there."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    for attempt in range(ATTEMPTS):
        found = _load(table)
        try:
            _commit(found, groups, why)
        except CommitFailedException:  # a stream or another upkeep committed meanwhile
            if attempt == ATTEMPTS - 1:
                raise
        except ValidationException:  # another upkeep replaced files of a group
            groups = _still_there(found, groups)
            if not groups:
                return []
        else:
            return groups
    raise AssertionError("unreachable: the last attempt returns or raises")


def _still_there(found: "Table", groups: list[_Group]) -> list[_Group]:
    """The groups whose files are all in the table; what was written for others is removed."""
    live = {task.file.file_path for task in found.scan().plan_files()}
    kept = [group for group in groups if all(file.file_path in live for file in group.old)]
    for group in groups:
        if group not in kept:
            _remove(found, [file.path for file in group.new])
    return kept


def _commit(found: "Table", groups: list[_Group], why: str) -> None:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    change = iceberg.once(found)
    iceberg.take_columns(change, Fit(schema_to_pyarrow(found.schema())))  # the table of another writer lacks names
    with change.update_snapshot(snapshot_properties={"firearrow.upkeep": why}).overwrite() as producer:
        producer.delete_by_predicate(AlwaysTrue())  # look for the files in all manifests
        for group in groups:
            for old in group.old:
                producer.delete_data_file(old)
            for new in group.manifest_files(change, found):
                producer.append_data_file(new)
    change.commit_transaction()


# -- removing files


def expire(table: LakeTable, work: Upkeep, now_ms: int) -> StepResult:
    """Forget versions of the table that are old, and remove the files that only they had."""
    from pyiceberg.exceptions import CommitFailedException

    before = datetime.fromtimestamp((now_ms - (work.expire_ms or 0)) / 1000, UTC)
    for attempt in range(ATTEMPTS):
        found = _load(table)
        past = found.metadata  # of now: the table object has the next one after the commit
        try:
            found.maintenance.expire_snapshots().older_than(before).commit()
        except CommitFailedException:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return StepResult("expire", _removed_since(table, past))
    raise AssertionError("unreachable: the last attempt returns or raises")


def _removed_since(table: LakeTable, past: "TableMetadata") -> int:
    """Remove the files that only expired versions had; return how many."""
    now = _load(table)
    kept = {each.snapshot_id for each in now.metadata.snapshots}
    expired = {each.snapshot_id for each in past.snapshots} - kept
    gone = _files(past, now.io, expired) - _files(now.metadata, now.io, kept)
    return _remove(now, sorted(gone))


def _files(metadata: "TableMetadata", io: "FileIO", snapshots: Iterable[int]) -> set[str]:
    """The files that snapshots have: lists, manifests and data. Each manifest is read once."""
    paths: set[str] = set()
    for number in snapshots:
        snapshot = metadata.snapshot_by_id(number)
        if snapshot is None:
            continue
        paths.add(_bare(snapshot.manifest_list))
        for manifest in snapshot.manifests(io):
            if _bare(manifest.manifest_path) in paths:
                continue
            paths.add(_bare(manifest.manifest_path))
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            paths.update(_bare(entry.data_file.file_path) for entry in entries)
    return paths


def orphans(table: LakeTable, work: Upkeep, now_ms: int) -> StepResult:
    """Remove files in the table's directories that no version has and that are old."""
    from pyarrow import fs

    found = _load(table)
    door, root = filesystem(found.location(), iceberg.storage_of(found))
    listed: list[tuple[str, float]] = []
    for part in ("data", "metadata"):
        selector = fs.FileSelector(f"{root}/{part}", recursive=True, allow_not_found=True)
        listed += [(each.path, each.mtime.timestamp()) for each in door.get_file_info(selector) if each.is_file]
    found = _load(table)  # after the list: what was committed meanwhile is known
    known = _files(found.metadata, found.io, [each.snapshot_id for each in found.metadata.snapshots])
    known |= {_bare(entry.metadata_file) for entry in found.metadata.metadata_log} | {_bare(found.metadata_location)}
    known |= {
        _bare(each.statistics_path) for each in (*found.metadata.statistics, *found.metadata.partition_statistics)
    }
    limit_s = (now_ms - (work.orphans_ms or 0)) / 1000
    old = [path for path, age_s in listed if age_s < limit_s and path not in known and not path.endswith("hint.text")]
    for path in old:
        door.delete_file(path)
    return StepResult("orphans", len(old))


def _bare(path: str) -> str:
    """A path as a file system lists it, without its scheme."""
    return path.partition("://")[2] if "://" in path else path.removeprefix("file:")


def _remove(found: "Table", paths: Iterable[str]) -> int:
    """Remove files that no version has; one that is gone already is no matter."""
    scheme = found.location().partition("://")[0] if "://" in found.location() else "file"
    count = 0
    for path in paths:
        try:
            found.io.delete(path if "://" in path else f"{scheme}://{path}")
        except FileNotFoundError:
            continue
        count += 1
    return count
