"""Two doors in one: what holds inside TLS holds nowhere else."""

from __future__ import annotations

import pytest

from spanwire.broker.ports import Principal
from spanwire.broker.security.authentication import (
    REQUIRED,
    CertificatesModule,
    DualLogin,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
    simple_authenticator,
)
from spanwire.model.errors import AuthenticationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret

ORDERS = "CN=orders, O=Example"


def dual() -> DualLogin:
    users = simple_authenticator([User("ann", Secret("sea"), frozenset({"staff"}))], Principal("guest", frozenset()))
    certified = CertificatesModule({ORDERS: Principal("orders", frozenset({"machines"}))})
    return DualLogin(users, LoginStack([StackEntry(REQUIRED, certified)]))


def who(info: ConnectionInfo) -> str:
    return dual().authenticate(info).name


def test_passwords_count_outside_tls_and_certificates_inside() -> None:
    assert who(ConnectionInfo("c", user_name="ann", password="sea")) == "ann"
    assert who(ConnectionInfo("c")) == "guest"
    assert who(ConnectionInfo("c", encrypted=True, certificate_subject=ORDERS)) == "orders"
    assert who(ConnectionInfo("c", "id", "ann", "wrong", encrypted=True, certificate_subject=ORDERS)) == "orders"


@pytest.mark.parametrize("subject", [None, "CN=orders", "CN=orders,O=Example", ""])
def test_a_connection_inside_tls_without_a_known_certificate_is_neither_a_guest_nor_a_user(subject: str | None) -> None:
    with pytest.raises(AuthenticationError):
        who(ConnectionInfo("c", encrypted=True, certificate_subject=subject))
    with pytest.raises(AuthenticationError):
        who(ConnectionInfo("c", "id", "ann", "sea", encrypted=True, certificate_subject=subject))


def test_certificates_can_be_replaced_while_the_broker_runs() -> None:
    module = CertificatesModule({ORDERS: Principal("orders", frozenset())})
    info = ConnectionInfo("c", encrypted=True, certificate_subject=ORDERS)
    module.replace({"CN=new": Principal("new", frozenset())})
    assert module.login(info) is None
    module.replace({ORDERS: Principal("orders", frozenset({"machines"}))})
    found = module.login(info)
    assert found is not None
    assert (found.name, found.groups) == ("orders", frozenset({"machines"}))


def test_a_user_whose_name_is_removed_cannot_log_in_any_more() -> None:
    module = UsersModule([User("ann", Secret("sea"), frozenset())])
    module.replace([])
    assert module.login(ConnectionInfo("c", user_name="ann", password="sea")) is None
