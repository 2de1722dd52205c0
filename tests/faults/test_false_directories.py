"""Directories that lie, hang, or are no directories: a login is refused with one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from spanwire.ldap import logins, rights
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.filters import filter_template
from spanwire.ldap.ldap_url import parse_ldap_urls
from spanwire.ldap.logins import MAX_EXPANSIONS, MAX_LOGIN_BYTES, MAX_ROLES, check_login
from spanwire.ldap.settings import DirectoryAccess, LoginSettings, RightsSettings, SearchSettings
from spanwire.model.secret import Secret
from tests.support.false_directory import (
    BIND,
    BIND_ANSWER,
    EXTENDED_ANSWER,
    REFERRAL,
    SEARCH,
    SEARCH_END,
    SEARCH_REFERENCE,
    FalseDirectory,
    ber,
    entry,
    honest,
    message,
    result,
    text,
)

BASE = "ou=User,o=company"
ANNA = f"uid=anna,{BASE}"


def settings(url: str, **more: object) -> LoginSettings:
    access = DirectoryAccess(parse_ldap_urls(url), "cn=broker,o=company", Secret("service"))
    found = LoginSettings(access, SearchSettings(BASE, filter_template("(uid={0})", 1)))
    return replace(found, **more)  # type: ignore[arg-type]


def failure(directory: FalseDirectory, password: str = "guess", **more: object) -> str:
    with pytest.raises(DirectoryError) as raised:
        check_login(settings(directory.url, **more), "anna", password)
    line = str(raised.value)
    assert "\n" not in line
    assert "guess" not in line
    assert "service" not in line
    return line.replace(f"the directory {directory.url} ", "")


@pytest.mark.parametrize("password", ["", "\0", "\0secret", "secret\0"])
def test_s31_cve_2014_3612_an_empty_password_is_refused_before_anything_is_asked(password: str) -> None:
    with FalseDirectory() as directory:
        assert check_login(settings(directory.url), "anna", password) is None
        assert check_login(settings(directory.url), "", "secret") is None
        assert directory.requests == []


def test_s31_cve_2021_26117_each_login_ends_with_a_bind_of_the_user() -> None:
    """The directory would accept a search by anybody; what counts is the answer to the user's own name and password."""

    def answer(number: int, kind: int) -> list[bytes]:
        binds = sum(b"guess" in request for request in directory.requests)
        if kind == BIND and binds:
            return [message(number, result(BIND_ANSWER, 49))]
        return honest(number, kind)

    with FalseDirectory(answer) as directory:
        assert check_login(settings(directory.url), "anna", "guess") is None
        assert directory.kinds() == [BIND, SEARCH, BIND]
        assert ANNA.encode() in directory.requests[2]
        assert b"guess" in directory.requests[2]


def test_s31_a_star_finds_nobody() -> None:
    with FalseDirectory() as directory:
        check_login(settings(directory.url), "*", "guess")
        assert b"\x2a" in directory.requests[1]
        assert directory.requests[1].count(b"\xa3") == 1, "an equality, and no search for anything present"


def bind_only(number: int, kind: int, *search: bytes) -> list[bytes]:
    return honest(number, kind) if kind == BIND else [message(number, one) for one in search]


def test_s31_a_directory_that_sends_elsewhere_is_not_followed() -> None:
    with FalseDirectory() as other:
        reference = ber(SEARCH_REFERENCE, text(f"{other.url}/{BASE}"))

        def refers(number: int, kind: int) -> list[bytes]:
            return bind_only(number, kind, reference, result(SEARCH_END))

        def redirects(number: int, kind: int) -> list[bytes]:
            return bind_only(number, kind, result(SEARCH_END, REFERRAL, ber(0xA3, text(f"{other.url}/{BASE}"))))

        with FalseDirectory(refers) as directory:
            assert check_login(settings(directory.url), "anna", "guess") is None
        with FalseDirectory(redirects) as directory:
            assert "has no answer about ou=User,o=company: referral" in failure(directory)
        assert other.requests == []


def test_s31_an_entry_of_somebody_elsewhere_is_no_user() -> None:
    def elsewhere(number: int, kind: int) -> list[bytes]:
        return bind_only(number, kind, entry("cn=admin,o=company"), result(SEARCH_END))

    with FalseDirectory(elsewhere) as directory:
        assert failure(directory) == "gives an entry for a user that is not below ou=User,o=company"


def test_s31_two_entries_of_one_name_are_nobody() -> None:
    def twice(number: int, kind: int) -> list[bytes]:
        return bind_only(number, kind, entry(ANNA), entry(f"uid=anna,ou=other,{BASE}"), result(SEARCH_END))

    with FalseDirectory(twice) as directory:
        assert failure(directory) == "has several entries for one user below ou=User,o=company"


def test_s31_an_answer_to_something_else_accepts_nobody() -> None:
    def of_another(number: int, kind: int) -> list[bytes]:
        return [message(number + 7, result(BIND_ANSWER))]

    def of_a_search(number: int, kind: int) -> list[bytes]:
        return [message(number, result(SEARCH_END))]

    def of_an_extension(number: int, kind: int) -> list[bytes]:
        return [message(number, result(EXTENDED_ANSWER))]

    with FalseDirectory(of_another) as directory:
        assert "invalid messageId" in failure(directory)
    for answer in (of_a_search, of_an_extension):
        with FalseDirectory(answer) as directory:
            assert failure(directory) == "answers a login with something else"


@pytest.mark.parametrize("junk", [b"", b"\x30", b"HTTP/1.1 200 OK\r\n\r\n", b"\x30\x03\x02\x01", b"\x00" * 64])
def test_s31_what_is_no_answer_ends_the_login(junk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LOGIN_S", 0.3)

    def sends(number: int, kind: int) -> list[bytes]:
        if not junk:
            raise OSError
        return [junk]

    with FalseDirectory(sends) as directory:
        assert failure(directory)


def test_s31_an_answer_without_end_is_cut_at_its_limit() -> None:
    filler = b"x" * 65536

    def endless(number: int, kind: int) -> list[bytes]:
        return honest(number, kind) if kind == BIND else [b"\x30\x84\x7f\xff\xff\xff", *[filler] * 64]

    with FalseDirectory(endless) as directory:
        assert failure(directory) == f"sends more than {MAX_LOGIN_BYTES} bytes"


def test_s31_roles_in_circles_end() -> None:
    count = 0

    def circles(number: int, kind: int) -> list[bytes]:
        nonlocal count
        if kind == BIND:
            return honest(number, kind)
        count += 1
        name = ANNA if count == 1 else f"cn=role{count},ou=Group,o=company"
        return [message(number, entry(name, cn=[f"role{count}"])), message(number, result(SEARCH_END))]

    roles = SearchSettings("ou=Group,o=company", filter_template("(member={0})", 2))
    expanded = filter_template("(member={0})", 1)
    with FalseDirectory(circles) as directory:
        assert (
            failure(directory, roles=roles, role_name="cn", expanded=expanded)
            == f"has more than {MAX_EXPANSIONS} roles in roles"
        )


@pytest.mark.parametrize("is_trickling", [False, True])
def test_s31_a_directory_that_takes_its_time_meets_a_deadline(
    is_trickling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``LOGIN_S`` belongs to a module that no build compiles."""
    monkeypatch.setattr(logins, "LOGIN_S", 0.3)

    def trickles(number: int, kind: int) -> Iterable[bytes]:
        if is_trickling:
            return _slowly(message(number, result(BIND_ANSWER)))
        time.sleep(5.0)
        return []

    with FalseDirectory(trickles) as directory:
        began = time.monotonic()
        assert failure(directory) == "has not answered within 0.3 s"
        assert time.monotonic() - began < 4.0


def _slowly(data: bytes) -> Iterator[bytes]:
    for octet in data:
        time.sleep(0.1)
        yield bytes([octet])


def test_a_directory_that_is_not_there_is_named_and_the_next_address_asked() -> None:
    with FalseDirectory() as gone:
        url = gone.url
    with pytest.raises(DirectoryError, match=r"the directory ldap://127\.0\.0\.1:\d+ cannot be asked: .*refused"):
        check_login(settings(url), "anna", "guess")
    with FalseDirectory() as there:
        assert check_login(settings(f"{url} {there.url}"), "anna", "guess") == frozenset()


def test_rights_without_end_are_cut_at_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "MAX_RIGHTS_BYTES", 100_000)

    def many(number: int, kind: int) -> list[bytes]:
        if kind == BIND:
            return honest(number, kind)
        return [message(number, entry(f"cn=read,cn=Q{index},ou=Queue", member=["cn=x"])) for index in range(5_000)]

    with FalseDirectory(many) as directory:
        with pytest.raises(DirectoryError, match="sends more than 100000 bytes"):
            rights.read_rights(service(directory))


def service(directory: FalseDirectory) -> RightsSettings:
    access = DirectoryAccess(parse_ldap_urls(directory.url), "cn=broker", Secret("service"))
    return RightsSettings(access, "ou=Queue", "ou=Topic", "ou=Temp")


def test_rights_of_a_directory_that_takes_its_time_meet_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "RIGHTS_S", 0.3)

    def hangs(number: int, kind: int) -> list[bytes]:
        time.sleep(5.0)
        return []

    with FalseDirectory(hangs) as directory:
        with pytest.raises(DirectoryError, match=r"has not answered within 0\.3 s"):
            rights.read_rights(service(directory))


def test_more_rights_or_members_than_a_map_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "MAX_RIGHTS", 10)
    monkeypatch.setattr(rights, "MAX_MEMBERS", 5)

    def some(count: int) -> Callable[[int, int], list[bytes]]:
        """All entries are found by the first search, and none by the others."""
        left = count

        def answer(number: int, kind: int) -> list[bytes]:
            nonlocal left
            if kind == BIND:
                return honest(number, kind)
            found = [entry(f"cn=read,cn=Q{index},ou=Queue", member=[f"cn=x{index}"]) for index in range(left)]
            left = 0
            return [message(number, one) for one in (*found, result(SEARCH_END))]

        return answer

    with FalseDirectory(some(11)) as directory:
        with pytest.raises(DirectoryError, match="has more entries than it gives, or than 10, below ou=Queue"):
            rights.read_rights(service(directory))
    with FalseDirectory(some(6)) as directory:
        with pytest.raises(DirectoryError, match="has more than 5 members"):
            rights.read_rights(replace(service(directory), legacy_names=False))


def test_s31_rights_that_are_not_below_their_base_are_none() -> None:
    def elsewhere(number: int, kind: int) -> list[bytes]:
        return bind_only(number, kind, entry("cn=read,cn=Q,ou=Queue", member=["cn=x"]), result(SEARCH_END))

    with FalseDirectory(elsewhere) as directory:
        found = rights.read_rights(service(directory))
        assert {right.kind for right in found.rights} == {"queue"}
        assert "cn=read,cn=Q,ou=Queue is not where a right on a topic is" in found.unusable


def test_s31_a_user_has_a_limited_number_of_roles() -> None:
    roles = [f"role{number}" for number in range(MAX_ROLES + 1)]

    def many(number: int, kind: int) -> list[bytes]:
        return bind_only(number, kind, entry(ANNA, memberOf=roles), result(SEARCH_END))

    with FalseDirectory(many) as directory:
        assert failure(directory, user_role_name="memberOf") == f"has more than {MAX_ROLES} roles of one user"
