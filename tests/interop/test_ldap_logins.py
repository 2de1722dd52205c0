"""Users, roles and rights in OpenLDAP: with TLS, with odd names, and while the directory goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.filters import filter_template
from spanwire.ldap.ldap_url import parse_ldap_urls
from spanwire.ldap.logins import check_login
from spanwire.ldap.right import QUEUES as QUEUE_RIGHT
from spanwire.ldap.right import TEMPORARY as TEMPORARY_RIGHT
from spanwire.ldap.right import Right
from spanwire.ldap.rights import read_rights
from spanwire.ldap.settings import DirectoryAccess, LoginSettings, RightsSettings, SearchSettings
from spanwire.model.secret import Secret
from spanwire.tls.settings import ClientTlsSettings, TrustStore
from tests.support import directory_entries as entries
from tests.support.canary import CANARY
from tests.support.certificates import Authority
from tests.support.directory_server import ADMIN, BASE, PASSWORD, DirectoryServer
from tests.support.peers import require

ODD: Final = 'Doe, "Jane" (x)*\\+<é>'
# RFC 4514 and LDIF: the same name in an entry's name
ODD_NAME: Final = 'uid=Doe\\, \\"Jane\\" (x)*\\\\\\+\\<\\C3\\A9\\>'


@pytest.fixture(autouse=True)
def _openldap() -> None:
    require("openldap")


class Site:
    """A directory with TLS, and the authority that has signed its certificate."""

    def __init__(self, path: Path) -> None:
        self.authority: Final = Authority()
        self.trust: Final = self.authority.write_certificate(path / "authority.pem")
        self.stranger: Final = Authority().write_certificate(path / "stranger.pem")
        key = self.authority.issue().write_pem(path / "slapd.pem")
        self.server: Final = DirectoryServer(
            path / "ldap",
            *entries.UNITS,
            entries.user("anna", more="employeeType: clerks\nemployeeType: auditors\n"),
            entries.user("otto", "other"),
            entries.user(ODD, name=f"{ODD_NAME},{entries.USERS}"),
            entries.group("staff", entries.member("anna"), entries.member("otto"), f"{ODD_NAME},{entries.USERS}"),
            entries.group("bosses", f"cn=staff,{entries.GROUPS}"),
            entries.group("owners", f"cn=bosses,{entries.GROUPS}", f"cn=owners,{entries.GROUPS}"),
            entries.destination("ORDERS.$"),
            entries.right("ORDERS.$", "Read", "cn=staff", "cn=bosses"),
            entries.right("ORDERS.$", "Write", f"cn=staff,{entries.GROUPS}", entries.member("anna")),
            entries.right("", "Admin", "cn=staff", base=entries.TEMPORARY),
            entries.group("Read", "cn=staff", base=entries.QUEUES),
            key=key,
        )

    def access(self, url: str = "", *, start_tls: bool = False, trust: Path | None = None) -> DirectoryAccess:
        tls = ClientTlsSettings(trust_store=TrustStore(trust or self.trust))
        url = url or f"ldap://127.0.0.1:{self.server.port}"
        return DirectoryAccess(parse_ldap_urls(url), ADMIN, Secret(PASSWORD), start_tls, tls)

    def login(self, access: DirectoryAccess | None = None) -> LoginSettings:
        return LoginSettings(
            access or self.access(),
            SearchSettings(entries.USERS, filter_template("(uid={0})", 1)),
            SearchSettings(entries.GROUPS, filter_template("(member={0})", 2)),
            "cn",
        )

    @property
    def secure_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.server.secure_port}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require("openldap")
    made = Site(tmp_path_factory.mktemp("site"))
    with made.server:
        yield made


@pytest.mark.smoke
def test_a_user_has_the_groups_of_the_directory(site: Site) -> None:
    assert check_login(site.login(), "anna", CANARY) == frozenset({"staff"})
    for name, password in (
        ("anna", CANARY + "x"),
        ("otto", CANARY),
        ("nobody", CANARY),
        ("*", CANARY),
        ("ann*", CANARY),
    ):
        assert check_login(site.login(), name, password) is None


def test_roles_in_roles_and_roles_of_the_entry_count(site: Site) -> None:
    expanding = replace(site.login(), expanded=filter_template("(member={0})", 1), user_role_name="employeeType")
    assert check_login(expanding, "anna", CANARY) == frozenset({"staff", "bosses", "owners", "clerks", "auditors"})


def test_s31_a_name_of_special_characters_is_a_name(site: Site) -> None:
    assert check_login(site.login(), ODD, CANARY) == frozenset({"staff"})
    by_name = replace(
        site.login(), roles=SearchSettings(entries.GROUPS, filter_template(f"(member=uid={{1}},{entries.USERS})", 2))
    )
    assert check_login(by_name, ODD, CANARY) == frozenset({"staff"})
    for name in ("anna)(uid=*", "anna\\00", "anna,ou=User", ")(|(uid=*"):
        assert check_login(site.login(), name, CANARY) is None


def test_passwords_cross_the_network_inside_tls(site: Site) -> None:
    for access in (site.access(site.secure_url), site.access(start_tls=True)):
        assert check_login(site.login(access), "anna", CANARY) == frozenset({"staff"})
        assert check_login(site.login(access), "anna", "wrong") is None


def test_s32_a_directory_with_the_certificate_of_a_stranger_is_not_asked(site: Site) -> None:
    for access in (
        site.access(site.secure_url, trust=site.stranger),
        site.access(start_tls=True, trust=site.stranger),
    ):
        with pytest.raises(DirectoryError, match="has a certificate that is refused: unable to get local issuer"):
            check_login(site.login(access), "anna", CANARY)


def test_s32_a_directory_without_tls_gets_no_password(site: Site) -> None:
    access = site.access(f"ldaps://127.0.0.1:{site.server.port}")
    with pytest.raises(DirectoryError, match=r"fails in TLS|cannot be asked|has not answered"):
        check_login(site.login(access), "anna", CANARY)


def test_bases_are_below_the_name_in_the_url(site: Site) -> None:
    access = site.access(f"ldap://127.0.0.1:{site.server.port}/{BASE}")
    settings = replace(
        site.login(access),
        users=SearchSettings("ou=User", filter_template("(uid={0})", 1)),
        roles=SearchSettings("ou=Group", filter_template("(member={0})", 2)),
    )
    assert check_login(settings, "anna", CANARY) == frozenset({"staff"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": Secret("wrong")}, f"refuses the login {ADMIN}: invalidCredentials"),
        ({"user_name": "cn=nobody,o=elsewhere"}, "refuses the login cn=nobody,o=elsewhere"),
    ],
)
def test_the_login_of_the_broker_is_the_broker_s_matter(site: Site, change: dict[str, str], reason: str) -> None:
    with pytest.raises(DirectoryError) as raised:
        check_login(site.login(replace(site.access(), **change)), "anna", CANARY)  # type: ignore[arg-type]
    assert reason in str(raised.value)
    assert "wrong" not in str(raised.value)


def test_a_base_that_is_not_there_is_named(site: Site) -> None:
    settings = replace(site.login(), users=SearchSettings(f"ou=Nowhere,{BASE}", filter_template("(uid={0})", 1)))
    with pytest.raises(DirectoryError, match="has no entry ou=Nowhere,o=company, the userBase"):
        check_login(settings, "anna", CANARY)


def rights(site: Site, **more: object) -> RightsSettings:
    settings = RightsSettings(site.access(), entries.QUEUES, entries.TOPICS, entries.TEMPORARY)
    return replace(settings, **more)  # type: ignore[arg-type]


def test_rights_name_groups_as_activemq_s_legacy_mapping_does(site: Site) -> None:
    found = read_rights(rights(site))
    assert Right(QUEUE_RIGHT, "ORDERS.>", "read", frozenset({"staff", "bosses"}), frozenset()) in found.rights
    assert Right(TEMPORARY_RIGHT, "", "admin", frozenset({"staff"}), frozenset()) in found.rights
    assert found.unusable == (f"cn=Read,{entries.QUEUES} is not where a right on a queue is",)


def test_rights_name_groups_and_users_that_are_looked_up(site: Site) -> None:
    found = read_rights(rights(site, legacy_names=False))
    assert Right(QUEUE_RIGHT, "ORDERS.>", "write", frozenset({"staff"}), frozenset({"anna"})) in found.rights
    assert any("the member cn=bosses is neither a group nor a user" in line for line in found.unusable)
