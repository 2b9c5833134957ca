"""Users and what they may do.

Java: ``remoting.protocol.body.UserInfo``, ``AclInfo`` (5.x); ``common.AclConfig``, ``common.PlainAccessConfig`` (4.9).
"""

from firearrow.protocol.bodies.body import Body, always
from firearrow.telemetry.hidden import hidden_repr


class UserInfo(Body, frozen=True, kw_only=True, gc=False):
    """A user: type "Super" or "Normal", status "enable" or "disable"."""

    __repr__ = hidden_repr

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None


class PolicyEntry(Body, frozen=True, kw_only=True):
    """The actions that are allowed or denied on one resource, and the source addresses."""

    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class Policy(Body, frozen=True, kw_only=True):
    """Entries of one type, "Custom" or "Default"."""

    entries: list[PolicyEntry] | None = None
    policy_type: str | None = None


class AclInfo(Body, frozen=True, kw_only=True):
    """The policies of one subject, such as ``User:alice``."""

    policies: list[Policy] | None = None
    subject: str | None = None


class PlainAccessConfig(Body, frozen=True, kw_only=True):
    """One account of 4.9's ``plain_acl.yml``."""

    __repr__ = hidden_repr

    access_key: str | None = None
    admin: bool = always(False)
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None
    secret_key: str | None = None
    topic_perms: list[str] | None = None
    white_remote_address: str | None = None


class ClusterAclConfig(Body, frozen=True, kw_only=True):
    """All accounts of a 4.9 broker. Java: ``GetBrokerClusterAclConfigResponseBody``."""

    global_white_addrs: list[str] | None = None
    plain_access_configs: list[PlainAccessConfig] | None = None
