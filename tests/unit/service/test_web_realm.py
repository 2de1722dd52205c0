"""Users of the web port: which passwords count, from where, and since when."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from spanwire.model.errors import AuthenticationError
from spanwire.model.info import ConnectionInfo
from spanwire.service.config.security.user_files import RealmFile
from spanwire.service.web_realm import WebRealm

HERE = "http://127.0.0.1:5"
ELSEWHERE = "http://10.0.0.1:5"
SHIPPED = "admin: admin, admin\nuser: user, user\n"


def realm(directory: Path, text: str) -> WebRealm:
    (directory / "realm").write_text(text)
    return WebRealm(RealmFile(directory / "realm"))


def log_in(realm: WebRealm, user: str | None, password: str | None, address: str = HERE) -> frozenset[str]:
    info = ConnectionInfo("", user_name=user, password=password, remote_address=address, protocol="http")
    return realm.authenticate(info).groups


def test_a_user_logs_in_with_the_password_and_gets_the_roles(tmp_path: Path) -> None:
    users = realm(tmp_path, "anna: a-4711, admin, user\n")
    assert log_in(users, "anna", "a-4711", ELSEWHERE) == {"admin", "user"}
    for user, password in (("anna", "a-4712"), ("anna", None), (None, None), ("otto", "a-4711"), (None, "a-4711")):
        with pytest.raises(AuthenticationError):
            log_in(users, user, password)
    assert (users.names("anna"), users.names("otto"), users.names(None)) == (True, False, False)


def test_a_digest_is_compared_with_that_of_the_password(tmp_path: Path) -> None:
    users = realm(tmp_path, f"anna: MD5:{hashlib.md5(b'a-4711').hexdigest()}, user\n")
    assert log_in(users, "anna", "a-4711") == {"user"}
    for wrong in ("a-4712", f"MD5:{hashlib.md5(b'a-4711').hexdigest()}"):
        with pytest.raises(AuthenticationError):
            log_in(users, "anna", wrong)


def test_the_shipped_passwords_count_on_this_machine_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = realm(tmp_path, SHIPPED)
    assert log_in(users, "admin", "admin") == {"admin"}
    assert log_in(users, "user", "user", "http://::1:5") == {"user"}
    with pytest.raises(AuthenticationError):
        log_in(users, "admin", "admin", ELSEWHERE)
    assert "the password of admin is well known, so it counts on this machine alone" in caplog.text


def test_a_changed_file_counts_and_an_unreadable_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users = realm(tmp_path, "anna: a-4711, user\n")
    (tmp_path / "realm").write_text("anna: a-4712, admin\n")
    os.utime(tmp_path / "realm", ns=(1, 1))
    assert log_in(users, "anna", "a-4712") == {"admin"}
    (tmp_path / "realm").write_text("anna: , admin\n")
    assert log_in(users, "anna", "a-4712") == {"admin"}
    (tmp_path / "realm").unlink()
    assert log_in(users, "anna", "a-4712") == {"admin"}
    assert caplog.text.count("the users of the web port stay as they were") == 2
