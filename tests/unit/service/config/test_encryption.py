"""``ENC(…)``: what Jasypt wrote is read, what we write comes back, and a wrong password shows nothing.

The values were written by Jasypt 1.9.3 with the password "activemq"; the first two stand in the examples of ActiveMQ.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.cli.main import main
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.values.encryption import Encryption, encryption
from tests.support.canary import CANARY

DES = "PBEWithMD5AndDES"
AES = "PBEWITHHMACSHA256ANDAES_256"
VARIABLE = "ACTIVEMQ_ENCRYPTION_PASSWORD"
WRITTEN = [
    (DES, "mYRkg+4Q4hua1kvpCCI2hg==", "manager"),
    (DES, "Cf3Jf3tM+UrSOoaKU50od5CuBa8rxjoL", "password"),
    (DES, "Va6niU5EzquXYhL1tj3o3IH+KLoKJMj7", "canary-password"),
    (DES, "ChjFAr5wXUClc3TVrxlmng==", ""),
    (DES, "WoiSobvzjpbQMCV4W1DjthkPLHlqO1y7", "pässwörd €"),
    (DES, "c3tJFKGWtqQNRNYNHsChrm/AvjIW9N9SYZn5jbLysAY=", "0123456789abcdef"),
    (AES, "ysYXIvLP/1oFZVWMVz2DYgw9gddUQnFRLtKA2iOCYAM9PrLILFl86zJxm1dn4H4O", "canary-password"),
    (AES, "x3aurh1g4qGZlT8k/60aS7Y/G+n2sFl38vYLaTlS065YvdGGWaMAtewbrPwy5l16", ""),
    (AES, "LF3qQod6gs1lMNvM0l9YFEZAcw8R2XhUoI6dKMA+mDRwaofmwRKABEYmjpywf/tr", "pässwörd €"),
    (
        AES,
        "27trWbouFEKBRlZqi+nGy8Obp6Jz2W0Rkt73Jrk0ySQnZSXlpeyUL2WPHcGsVxADYAMzxt9RXdfJDttS5vydEA==",
        "0123456789abcdef",
    ),
    (
        "PBEWITHHMACSHA512ANDAES_256",
        "TiJ4dttftIrdeO9dGbwzd7CywpN7PK9fvDFm0qhOCIefQkNAm3IvyVCRhw4AXYoT",
        "canary-password",
    ),
    (
        "PBEWITHHMACSHA256ANDAES_128",
        "Guzpy8ek9AwEqank5dKT7Olg3NiuoPPtI29bC4YgNMhvXxEi6Sq1m2PJkuoYtfqF",
        "canary-password",
    ),
]


def cipher(algorithm: str | None = None, password: str = "activemq") -> Encryption:
    return Encryption(Secret(password), algorithm)


@pytest.mark.parametrize(("algorithm", "value", "text"), WRITTEN)
def test_what_jasypt_wrote_is_read(algorithm: str, value: str, text: str) -> None:
    assert cipher(algorithm).decrypt(value) == text
    assert cipher(algorithm.lower()).decrypt(f" ENC({value}) ") == text
    if algorithm in (DES, AES):
        assert cipher().decrypt(value) == text, "told apart without saying which"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.sampled_from([None, DES, AES]))
def test_what_is_encrypted_comes_back_and_never_looks_the_same_twice(text: str, algorithm: str | None) -> None:
    first, second = cipher(algorithm).encrypt(text), cipher(algorithm).encrypt(text)
    assert first != second
    assert first.startswith("ENC(")
    assert first.endswith(")")
    assert cipher(algorithm).decrypt(first) == text


@pytest.mark.parametrize(
    "value", ["", "x", "ENC()", "ENC(====)", "ENC(AAAA)", "ENC(€)", base64.b64encode(bytes(48)).decode()]
)
@pytest.mark.parametrize("algorithm", [None, DES, AES])
def test_what_cannot_be_decrypted_is_one_line(value: str, algorithm: str | None) -> None:
    with pytest.raises(ConfigurationError) as raised:
        cipher(algorithm).decrypt(value)
    assert "\n" not in str(raised.value)


def test_a_wrong_password_and_a_wrong_algorithm_show_nothing() -> None:
    value = cipher().encrypt(CANARY)
    for wrong in (cipher(password="other"), cipher("PBEWITHHMACSHA512ANDAES_256"), cipher(DES)):
        with pytest.raises(ConfigurationError, match="wrong password, wrong algorithm, or damaged"):
            wrong.decrypt(value)
    with pytest.raises(ConfigurationError, match="is none of PBEWithMD5AndDES, PBEWITH"):
        cipher("ROT13")
    with pytest.raises(ConfigurationError, match=VARIABLE):
        encryption({}, {})
    assert encryption({"X": "activemq"}, {"passwordEnvName": "X"}).decrypt(value) == CANARY


CONFIGURATION = """
<beans>
  <bean id="environmentVariablesConfiguration" class="org.jasypt.encryption.pbe.config.EnvironmentStringPBEConfig">
    <property name="algorithm" value="PBEWithMD5AndDES"/><property name="passwordEnvName" value="ENCRYPTION"/>
  </bean>
  <bean id="configurationEncryptor" class="org.jasypt.encryption.pbe.StandardPBEStringEncryptor">
    <property name="config" ref="environmentVariablesConfiguration"/>
  </bean>
  <bean class="org.jasypt.spring4.properties.EncryptablePropertyPlaceholderConfigurer">
    <constructor-arg ref="configurationEncryptor"/>
    <property name="location" value="file:${activemq.conf}/credentials-enc.properties"/>
  </bean>
  <broker><plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="system" password="${activemq.password}"/>
    <authenticationUser username="direct" password="ENC(Cf3Jf3tM+UrSOoaKU50od5CuBa8rxjoL)"/>
  </users></simpleAuthenticationPlugin></plugins></broker>
</beans>
"""


def test_encrypted_passwords_of_a_configuration_are_read_like_activemqs_example(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    (tmp_path / "credentials-enc.properties").write_text("activemq.password=ENC(mYRkg+4Q4hua1kvpCCI2hg==)\n")
    given = {"activemq.conf": str(tmp_path)}
    found = load_configuration(str(path), given, {"ENCRYPTION": "activemq"}).authentication
    assert found is not None
    assert [user.password.reveal() for user in found.modules[0].users] == ["manager", "password"]
    for environment in ({}, {"ENCRYPTION": CANARY}):
        with pytest.raises(ConfigurationError) as raised:
            load_configuration(str(path), given, environment)
        assert CANARY not in str(raised.value)
        assert "password of <authenticationUser>" in str(raised.value)


def test_the_commands_encrypt_and_decrypt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "activemq")
    for options in ([], ["--algorithm", DES]):
        assert main(["encrypt", "--input", CANARY, *options]) == 0
        value = capsys.readouterr().out.strip()
        assert main(["decrypt", "--input", value, *options]) == 0
        assert capsys.readouterr().out == CANARY + "\n"
        assert main(["decrypt", "--input", value, "--password", "wrong"]) == 1
        assert "wrong password" in capsys.readouterr().err
    monkeypatch.delenv(VARIABLE)
    assert main(["encrypt", "--input", CANARY]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"spanwire encrypt: the password is missing; set {VARIABLE} or give --password\n"
