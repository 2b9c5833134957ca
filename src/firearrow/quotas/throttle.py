"""The one place where requests are counted against quotas, before their handlers and behind access.

Counted are sends, messages sent back, pulls and queries of messages. Heartbeats, offsets, locks, ends of transactions
and administration are not: refusing them would break groups that keep to their quota, or shut out the operator who
wants to raise a limit.

A request counts for its user, its client, its topic and its consumer group, with one request and with the bytes of its
header and body; the body of its answer counts when it is known. If one of them is over its quota, the request is
refused and counts for none. The refusal is Apache's flow-control answer (SYSTEM_BUSY, for pulls FLOW_CONTROL) with how
long to wait, in words and as a field. Stock clients do not read the field: their requests are held back for a while
first, and refused only if that was not enough (`held`).

With no limit set requests do not pass here, and many sends at once cost a look at ``is_on``.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import OUR_LANGUAGE
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import Refused, RetryAfter
from firearrow.protocol.requests.message.pull import LitePullMessage, PullMessage
from firearrow.protocol.requests.message.query import QueryConsumeQueue, QueryMessage, ViewMessageById
from firearrow.protocol.requests.message.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendBatchMessage,
    SendMessage,
    SendMessageV2,
)
from firearrow.protocol.sends import SendsArrived
from firearrow.quotas.bucket import Bucket
from firearrow.quotas.bucket_table import Buckets
from firearrow.quotas.held import HeldRequest, HeldRequests, order_of
from firearrow.quotas.settings import Measure, QuotaConfig, QuotaKind
from firearrow.remoting.handlers import Answer, Call, Charge, Creditor, Handler, Handlers, Later, ManySends, Peer

SENDS: Final[tuple[type[Request[Any]], ...]] = (SendMessage, SendMessageV2, SendBatchMessage)
PULLS: Final[tuple[type[Request[Any]], ...]] = (PullMessage, LitePullMessage)
COUNTED: Final[tuple[type[Request[Any]], ...]] = (
    *SENDS,
    *PULLS,
    RecallMessage,
    QueryMessage,
    ViewMessageById,
    QueryConsumeQueue,
    ConsumerSendMsgBack,
)
"""The requests that count."""
NAME_LENGTH_MAX: Final = 255
LONG_NAMES: Final = "(names of more than 255 characters)"
"""The name that counts for all names that are too long: their requests are refused, and the names are not kept."""
TOLD_MAX_S: Final = 30.0
"""The longest wait that a client is told; after it, it is told again."""
SHORTEST_S: Final = 0.001
"""The shortest wait: event loops round shorter ones down to none."""
_PULL_CODES: Final = frozenset(int(kind.code) for kind in PULLS)

NameOf = Callable[[Any, Peer], str | None]
"""Returns the name that a request of a peer counts for; None: it counts for none of this kind."""


class _Cost(Struct, gc=False):
    """The cost of a request in one bucket."""

    bucket: Bucket
    cost: int
    buckets: Buckets
    name: str


class Throttle:
    """Lets requests pass, or tells them when to come again.

    ``user_of`` returns the user that asks what is handled now, ``client_of`` the client id of a peer.
    """

    def __init__(self, user_of: Callable[[], str | None], client_of: Callable[[Peer], str | None]) -> None:
        self._user_of = user_of
        self._client_of = client_of
        self._name_of: Final[dict[QuotaKind, NameOf]] = {
            QuotaKind.USER: self._user,
            QuotaKind.CLIENT: self._client,
            QuotaKind.TOPIC: _topic,
            QuotaKind.GROUP: _group,
        }
        self._counts: list[tuple[NameOf, Buckets]] = []
        self.throttled: Final = {(kind, measure): 0 for kind in QuotaKind for measure in Measure}
        """The number of refused requests, by the quota that was used up."""
        self.held: Final = HeldRequests()
        self.is_on = False
        """Whether there is a limit at all."""
        self._in_front: list[tuple[Handlers, int, Handler, Handler]] = []

    def configure(self, config: QuotaConfig) -> None:
        """Use these limits from now on; everybody begins with a full bucket where a limit has changed."""
        before = [buckets for _, buckets in self._counts]
        counts = []
        for limit in config.limits():
            same = next((buckets for buckets in before if buckets.limit == limit), None)
            counts.append((self._name_of[limit.kind], Buckets(limit) if same is None else same))
        has_changed = [buckets.limit for _, buckets in counts] != [buckets.limit for buckets in before]
        self._counts = counts
        self.is_on = bool(counts)
        self._switch()
        if has_changed:
            self.held.let_go()

    # ---- in front of handlers

    def before(self, handlers: Handlers) -> Handlers:
        """Return the handlers behind this throttle."""
        behind = handlers.without(())
        for code in (int(kind.code) for kind in COUNTED):
            if code in handlers.by_code:
                handler = handlers.by_code[code]
                self._in_front.append((behind, code, handler, partial(self._count, handler)))
        self._switch()
        many = handlers.many_sends
        if many is not None:
            behind.many_sends = lambda sends, peer: self._many(sends, peer, many) if self.is_on else many(sends, peer)
        return behind

    def _switch(self) -> None:
        """Have requests counted before their handlers while there is a limit."""
        for behind, code, handler, counting in self._in_front:
            behind.swap(code, *((handler, counting) if self.is_on else (counting, handler)))

    def _count(self, handler: Handler, request: Request[Any], call: Call) -> Answer | Later | None:
        """Call the handler if the request may pass; hold it back or raise ``Refused`` when it may not."""
        costs = self._costs(request, call.peer, len(call.asked.header) + len(call.asked.body), 1)
        if not costs:
            return handler(request, call)
        if not isinstance(request, SENDS):
            call.charge = _charge(costs)
        if call.language == OUR_LANGUAGE.name or call.asked.is_oneway:
            if _pass(costs):
                raise self._refusal(costs, call)
        elif self.held.is_behind(key := order_of(request, call.peer)) or _pass(costs):
            held = HeldRequest(request, call, handler, partial(_pass, costs), partial(self._refusal, costs, call))
            return self.held.hold(key, held, _worst(costs)[0])
        answer = handler(request, call)
        if call.charge is not None and isinstance(answer, Answer):
            call.charge(len(answer.body))
        return answer

    def _many(self, sends: SendsArrived, peer: Creditor, take: ManySends) -> bool:
        """Let many sends pass at once; return False if they must be taken one by one."""
        costs = self._costs(sends.shape.request, peer, sends.columns.end, len(sends.columns.bodies))
        now = _now()
        if self.held.count or not all(cost.bucket.may_pass(now) for cost in costs) or not take(sends, peer):
            return False
        for cost in costs:
            cost.bucket.take(cost.cost)
        return True

    def _costs(self, request: Request[Any], peer: Peer, size: int, count: int) -> list[_Cost]:
        now, costs = _now(), []
        for name_of, buckets in self._counts:
            name = name_of(request, peer)
            if name is not None and len(name) > NAME_LENGTH_MAX:
                name = LONG_NAMES
            owner = (self._user_of() or "") if buckets.limit.kind is QuotaKind.CLIENT else ""
            bucket = None if name is None else buckets.of(name, now, owner)
            if name is not None and bucket is not None:
                costs.append(_Cost(bucket, size if buckets.limit.measure is Measure.BYTES else count, buckets, name))
        return costs

    def _refusal(self, costs: Sequence[_Cost], call: Call) -> Refused:
        """Count a refusal, and return it."""
        wait_s, worst = _worst(costs)
        limit = worst.buckets.limit
        self.throttled[limit.kind, limit.measure] += 1
        return _refused(worst, min(wait_s, TOLD_MAX_S), is_pull=call.asked.heading.code in _PULL_CODES)

    # ---- names

    def _user(self, _request: object, _peer: Peer) -> str | None:
        return self._user_of()

    def _client(self, _request: object, peer: Peer) -> str:
        return self._client_of(peer) or str(peer.address)

    # ---- looking

    def buckets(self) -> Iterator[Buckets]:
        """Iterate over the buckets of every limit in force."""
        return (buckets for _, buckets in self._counts)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _topic(request: Any, _peer: Peer) -> str | None:  # noqa: ANN401 - a request of any type
    return getattr(request, "topic", None)


def _group(request: Any, _peer: Peer) -> str | None:  # noqa: ANN401 - a request of any type
    name: str | None = getattr(request, "consumer_group", None)
    return name if name is not None else getattr(request, "group", None)


def _pass(costs: Sequence[_Cost]) -> float:
    """Take what a request costs and return 0, or return how long it should wait."""
    now = _now()
    for cost in costs:
        if not cost.bucket.may_pass(now):
            return max(SHORTEST_S, *(cost.bucket.wait_s(now) for cost in costs))
    for cost in costs:
        cost.bucket.take(cost.cost)
    return 0.0


def _worst(costs: Sequence[_Cost]) -> tuple[float, _Cost]:
    """Return how long a request should be told to wait, and for what."""
    now = _now()
    worst = max(costs, key=lambda cost: cost.bucket.wait_s(now))
    return worst.bucket.tell_s(worst.cost, now), worst


def _charge(costs: Sequence[_Cost]) -> Charge:
    """Return what takes the cost of an answer, when it is known."""
    buckets = [cost.bucket for cost in costs if cost.buckets.limit.measure is Measure.BYTES]

    def charge(size: int) -> None:
        for bucket in buckets:
            bucket.take(size)

    return charge


def _refused(cost: _Cost, wait_s: float, *, is_pull: bool) -> Refused:
    limit, wait_ms = cost.buckets.limit, int(wait_s * 1000) + 1
    rate = limit.of(cost.name)
    where = (
        f"quotaOverrides={limit.kind}{limit.measure.capitalize()}:{cost.name}"
        if cost.name in limit.named
        else limit.key
    )
    remark = (
        f"[QUOTA]broker busy, start flow control for a while: {limit.kind} {cost.name} has used up its quota "
        f"({where}={rate} a second); try again in {wait_ms} ms"
    )
    code = ResponseCode.FLOW_CONTROL if is_pull else ResponseCode.SYSTEM_BUSY
    return Refused(code, remark, RetryAfter(retry_after_ms=wait_ms))
