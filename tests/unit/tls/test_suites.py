"""Java's names in OpenSSL's words."""

from __future__ import annotations

import ssl

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.tls import suites


def offered(*names: str, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    suites.apply(context, protocols, names)
    return context


def old_ones(context: ssl.SSLContext) -> list[str]:
    return [str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


def test_without_a_choice_both_versions_and_every_safe_suite_are_offered() -> None:
    context = offered()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert set(old_ones(context)) == set(suites.OLD_SUITES.values())


@pytest.mark.parametrize(("java", "openssl"), list(suites.OLD_SUITES.items()))
def test_each_suite_has_its_name_in_openssl(java: str, openssl: str) -> None:
    context = offered(java)
    assert old_ones(context) == [openssl]
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_suites_of_one_version_leave_that_version() -> None:
    assert offered("TLS_AES_128_GCM_SHA256").minimum_version == ssl.TLSVersion.TLSv1_3
    both = offered("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_a_version_without_its_suites_leaves_nothing() -> None:
    with pytest.raises(ConfigurationError, match="no TLS version is left"):
        offered("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", protocols=("TLSv1.3",))


def test_what_the_jdk_knows_and_is_not_safe_is_told_apart_from_what_nobody_knows() -> None:
    assert "TLS_RSA_WITH_AES_128_CBC_SHA" in suites.KNOWN_SUITES
    assert "SSL_RSA_WITH_RC4_128_MD5" in suites.KNOWN_SUITES
    assert not any(name.startswith("TLS_ECDHE_RSA_WITH_AES_128_XYZ") for name in suites.KNOWN_SUITES)
