"""Batches for a store, out of drafts: what a broker makes out of a client's batch."""

from collections.abc import Sequence

from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.store.placement import AppendedColumns
from firearrow.store.store import Store


def columns_of_drafts(drafts: Sequence[Draft]) -> tuple[Envelope, MessageColumns]:
    """Drafts by columns; all of them must have one envelope."""
    envelopes = {
        (draft.topic, draft.born_host, draft.store_host, draft.sys_flag, draft.reconsume_times) for draft in drafts
    }
    (shared,) = envelopes
    return Envelope(*shared), MessageColumns(
        [draft.queue_id for draft in drafts],
        [draft.born_timestamp for draft in drafts],
        [draft.flag for draft in drafts],
        [bytes(draft.body) for draft in drafts],
        [draft.properties for draft in drafts],
    )


def append_batch(store: Store, drafts: Sequence[Draft]) -> AppendedColumns:
    """Give messages of a topic places side by side in one segment: all or none."""
    if store.retention.refusal is not None:
        raise store.retention.refusal
    envelope, columns = columns_of_drafts(drafts)
    tails = [store.queues.tail_of(envelope.topic, queue_id) for queue_id in columns.queue_ids]
    return store.log.append_columns(envelope, tails, columns)
