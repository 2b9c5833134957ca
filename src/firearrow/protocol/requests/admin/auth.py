"""Users and what they may do: 5.x (3001 to 3010), and 4.9's accounts (50 to 54).

Java: ``header.CreateUserRequestHeader`` and neighbours; 4.9: ``header.CreateAccessConfigRequestHeader`` and neighbours.
"""

from typing import ClassVar

from firearrow.protocol.bodies.admin.auth import AclInfo, ClusterAclConfig, UserInfo
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Request
from firearrow.telemetry.hidden import hidden_repr


class AuthCreateUser(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Make a user."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_CREATE_USER
    request_body = UserInfo
    username: str | None = None


class AuthUpdateUser(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change a user."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_UPDATE_USER
    request_body = UserInfo
    username: str | None = None


class AuthDeleteUser(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget a user."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_DELETE_USER
    username: str | None = None


class AuthGetUser(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One user."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_GET_USER
    answer_body = UserInfo
    username: str | None = None


class AuthListUser(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """All users whose name contains a text."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_LIST_USER
    answer_body = list[UserInfo]
    filter: str | None = None


class AuthCreateAcl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Give a subject policies."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_CREATE_ACL
    request_body = AclInfo
    subject: str | None = None


class AuthUpdateAcl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change the policies of a subject."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_UPDATE_ACL
    request_body = AclInfo
    subject: str | None = None


class AuthDeleteAcl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Take policies from a subject."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_DELETE_ACL
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class AuthGetAcl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The policies of a subject."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_GET_ACL
    answer_body = AclInfo
    subject: str | None = None


class AuthListAcl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The policies of all subjects that match."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_LIST_ACL
    answer_body = list[AclInfo]
    subject_filter: str | None = None
    resource_filter: str | None = None


class CopyAccounts(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The file of users and rules, secrets included, for a slave; Apache's servers do not know this request."""

    code: ClassVar[RequestCode] = RequestCode.COPY_ACCOUNTS
    answer_body = bytes


class UpdateAndCreateAclConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Make or change an account (4.9)."""

    __repr__ = hidden_repr
    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAclConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget an account (4.9)."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_ACL_CONFIG
    access_key: str


class GetBrokerClusterAclInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The editions of a broker's accounts; both versions are JSON."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class GetBrokerClusterAclInfo(Request[GetBrokerClusterAclInfoAnswer], frozen=True, kw_only=True, gc=False):
    """The edition of the accounts that a broker has (4.9)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CLUSTER_ACL_INFO


class UpdateGlobalWhiteAddrsConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change which addresses need no account (4.9)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    global_white_addrs: str
    acl_file_full_path: str | None = None


class GetBrokerClusterAclConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """All accounts (4.9)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    answer_body = ClusterAclConfig
