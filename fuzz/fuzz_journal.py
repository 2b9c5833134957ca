"""Journals of tables: any bytes are read, and what was read is read again once it is written."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.broker.state.journal import Edition, encode_changes, encode_edition, read_journal
    from firearrow.broker.tables.offset_rows import OffsetRows
    from firearrow.broker.tables.offsets import OffsetTable
    from firearrow.broker.tables.topics import TopicTable
    from firearrow.errors import BadBody

SEED = encode_edition(1, Edition(10, 20, 30)) + encode_changes(2, [b'["T",{"topicName":"T"}]', b'["T","g",0,5]'])


def target(data: bytes) -> None:
    journal = read_journal(data)
    lines = [line for _, some in journal.changes for line in some]
    if lines:
        assert [line for _, some in read_journal(encode_changes(1, lines)).changes for line in some] == lines
    for table in (TopicTable(), OffsetRows(OffsetTable(), lambda _topic, _queue_id: 0)):
        for line in [*lines, data]:
            try:
                table.apply(line)
            except BadBody:
                continue
        b"".join(table.pieces())


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    read_journal(data)


if __name__ == "__main__":
    run(target, seeds=[SEED, SEED[:-3], b'["T","g"]', b""])
