"""Envelopes of any kind."""

from hypothesis import strategies as st

from firearrow.record.columns import Envelope
from firearrow.testing import strategies as our


def envelopes(topic: st.SearchStrategy[str] = our.topics | our.long_topics) -> st.SearchStrategy[Envelope]:
    """Either version of a record, either kind of each host, the bodies plain."""
    return st.builds(Envelope, topic, our.hosts(), our.hosts(), our.sys_flags(), our.int32s)
