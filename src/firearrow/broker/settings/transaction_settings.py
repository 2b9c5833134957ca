"""The settings of transactions, under Apache's key names. Java: ``BrokerConfig``."""

from typing import Annotated

from msgspec import Meta, Struct


class TransactionConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether transactions are taken, and when producers are asked about them."""

    reject_transaction_message: Annotated[bool, Meta(description="Refuse half messages of transactions.")] = False
    transaction_time_out: Annotated[
        int,
        Meta(
            ge=1,
            le=86_400_000,
            description="Milliseconds after its birth in which the producer is not asked about a half message that "
            "has no property CHECK_IMMUNITY_TIME_IN_SECONDS.",
        ),
    ] = 6_000
    transaction_check_max: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Times that producers are asked about a half message before it is moved to "
            "TRANS_CHECK_MAX_TIME_TOPIC.",
        ),
    ] = 15
    transaction_check_interval: Annotated[
        int, Meta(ge=10, le=86_400_000, description="Milliseconds between two rounds of questions to producers.")
    ] = 30_000
    transaction_op_msg_max_size: Annotated[
        int, Meta(ge=32, le=1 << 20, description="Bytes after which the body of a batched op message ends.")
    ] = 4_096
    transaction_op_per_message: Annotated[
        bool,
        Meta(
            description="Write one op message for each half message that is over, the only form that a 4.9 broker "
            "reads. Set it before the directory goes back to 4.9."
        ),
    ] = False
