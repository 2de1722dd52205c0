"""Interprets the ``sslContext`` of a configuration and the TLS options of connectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.documents.element import Element
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_WORD, Findings
from spanwire.service.config.values.values import Settings
from spanwire.tls import suites
from spanwire.tls.settings import (
    NEED_CLIENT_CERTIFICATE,
    NO_CLIENT_CERTIFICATE,
    NO_PASSWORD,
    WANT_CLIENT_CERTIFICATE,
    ClientTlsSettings,
    KeyStore,
    TlsSettings,
    TrustStore,
)

JAVA_PREFIX: Final = "javax.net.ssl."  # Java's properties, used without an sslContext
PASSWORDS: Final = ("keyStorePassword", "keyStoreKeyPassword", "trustStorePassword")
ONLY_IN_JAVA: Final = ("classpath:", "http:", "https:")


@dataclass(frozen=True, slots=True)
class Stores:
    """The key and trust store of all connectors of a broker."""

    key_store: KeyStore | None = None
    trust_store: TrustStore | None = None
    protocol: str | None = None


NO_STORES: Final = Stores()


def read_stores(
    elements: list[Element], findings: Findings, base: Path, variables: Variables, decryption: Decryption
) -> Stores:
    """Return the stores of an ``sslContext``, else of the properties ``javax.net.ssl.…``; opens no file."""
    if len(elements) > 1:
        findings.error(elements[1].line, "a second <sslContext>; keep one")
    if not elements:
        return _java_stores(variables, base)
    element = elements[0]
    settings = Settings(element, findings)
    secrets = {name: _secret(element, name, findings, decryption) for name in PASSWORDS}
    key_path = _path(element, "keyStore", findings, base)
    trust_path = _path(element, "trustStore", findings, base)
    key_store: KeyStore | None = None
    if key_path is not None:
        private = _path(element, "keyStoreKey", findings, base)
        key_store = KeyStore(key_path, secrets["keyStorePassword"], private, secrets["keyStoreKeyPassword"])
    trust_store = None if trust_path is None else TrustStore(trust_path, secrets["trustStorePassword"])
    return Stores(key_store, trust_store, settings.text("protocol"))


def _java_stores(variables: Variables, base: Path) -> Stores:
    def store(name: str) -> tuple[Path, Secret] | None:
        path = variables.value(f"{JAVA_PREFIX}{name}")
        password = Secret(variables.value(f"{JAVA_PREFIX}{name}Password") or "")
        return None if not path else (base / path, password)

    key, trust = store("keyStore"), store("trustStore")
    return Stores(None if key is None else KeyStore(*key), None if trust is None else TrustStore(*trust))


def _secret(element: Element, name: str, findings: Findings, decryption: Decryption) -> Secret:
    try:
        return Settings(element, findings).secret(name, decryption)
    except ConfigurationError as error:
        findings.error(element.attributes[name].line, f"{name} of <sslContext>: {error}")
        return NO_PASSWORD


def _path(element: Element, name: str, findings: Findings, base: Path) -> Path | None:
    text = element.value(name)
    if text is None:
        return None
    line = element.attributes[name].line
    text = text.strip()
    if text.startswith(ONLY_IN_JAVA):
        findings.error(line, f"{name} of <sslContext> must be a file, not {text.partition(':')[0]}:")
        return None
    text = text.removeprefix("file:")
    if text.startswith("///"):
        text = text[2:]
    if not text or any(character < " " for character in text):
        findings.error(line, f"{name} of <sslContext> is no file name")
        return None
    return base / text


def connector_tls(
    word: str, options: Mapping[str, str], stores: Stores, line: int, findings: Findings
) -> TlsSettings | None:
    """Return the TLS settings of the connector ``word``; None, with findings, for unusable settings."""
    if stores.key_store is None:
        advice = '<sslContext><sslContext keyStore="file:broker.pem"/></sslContext>'
        findings.error(line, f"{word} needs a key store; add {advice} to the broker")
        return None
    wanted = _client_certificate(options)
    if wanted != NO_CLIENT_CERTIFICATE and stores.trust_store is None:
        findings.error(
            line, f"{word} asks for client certificates but has no trust store; give <sslContext> a trustStore"
        )
    verify_address = options.get("verifyHostName", "").lower() == "true"
    if verify_address and wanted == NO_CLIENT_CERTIFICATE:
        advice = "add needClientAuth=true or remove verifyHostName"
        findings.error(line, f"{word} is to verify the address in client certificates but asks for none; {advice}")
    protocols = _versions(word, _names(options.get("enabledProtocols") or stores.protocol or ""), line, findings)
    cipher_suites = _suites(word, _names(options.get("enabledCipherSuites") or ""), line, findings)
    return TlsSettings(stores.key_store, stores.trust_store, wanted, protocols, cipher_suites, verify_address)


def unknown_option(scheme: str, name: str, known: Iterable[str], line: int, findings: Findings) -> None:
    """Report an unknown option of an address; stores, which Java's clients may have there, are in ``<sslContext>``."""
    for store in ("keyStore", "trustStore"):
        if name.rpartition(".")[2].startswith(store):
            advice = f"write {store} and {store}Password in the <sslContext> of the broker"
            findings.error(line, f"unknown option of {scheme}:// {name[:MAX_WORD]!r}; {advice}")
            return
    findings.unknown(line, f"option of {scheme}://", name, known, spelt=True)


def client_tls(
    word: str, options: Mapping[str, str], stores: Stores, line: int, findings: Findings
) -> ClientTlsSettings:
    """Return the TLS settings for connections to ``word``; faults are in the findings."""
    return ClientTlsSettings(
        stores.trust_store,
        stores.key_store,
        options.get("verifyHostName", "true").lower() == "true",
        _versions(word, _names(options.get("enabledProtocols") or ""), line, findings),
        _suites(word, _names(options.get("enabledCipherSuites") or ""), line, findings),
    )


def _client_certificate(options: Mapping[str, str]) -> int:
    if options.get("needClientAuth", "").lower() == "true":
        return NEED_CLIENT_CERTIFICATE
    if options.get("wantClientAuth", "").lower() == "true":
        return WANT_CLIENT_CERTIFICATE
    return NO_CLIENT_CERTIFICATE


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip() and name.strip() != "TLS"]


def _versions(word: str, names: list[str], line: int, findings: Findings) -> tuple[str, ...]:
    versions = []
    for name in names:
        if name in suites.VERSIONS:
            versions.append(name)
        elif name in suites.BROKEN_VERSIONS:
            findings.warn(line, f"{word} does not offer {name}: it is insecure; TLSv1.2 and TLSv1.3 are supported")
        else:
            findings.unknown(line, "TLS version", name, suites.VERSIONS, spelt=True)
    if names and not versions:
        findings.error(line, f"{word} has no TLS version left; enable TLSv1.2 or TLSv1.3")
    return tuple(versions)


def _suites(word: str, names: list[str], line: int, findings: Findings) -> tuple[str, ...]:
    cipher_suites = []
    for name in names:
        if name in suites.SUITES:
            cipher_suites.append(name)
        elif name in suites.KNOWN_SUITES:
            findings.warn(line, f"{word} does not offer {name}: it is not safe any more")
        else:
            findings.unknown(line, "cipher suite", name, suites.SUITES, spelt=True)
    if names and not cipher_suites:
        findings.error(line, f"{word} has no cipher suite left; supported are {', '.join(suites.SUITES)[:MAX_WORD]}…")
    return tuple(cipher_suites)
