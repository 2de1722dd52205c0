"""Certificates made for one test run: an authority, and what it signs. Keys are elliptic, which takes a millisecond."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY: Final = datetime.timedelta(days=1)
OIDS: Final = {
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
}


class Certified:
    """A private key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key: Final = key
        self.certificate: Final = certificate

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, password: str | None = None) -> bytes:
        """The private key, encrypted with ``password``."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption(password))

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Key and certificate in one file."""
        path.write_bytes(self.key_pem(password) + self.pem)
        return path

    def write_certificate(self, path: Path) -> Path:
        """The certificate alone."""
        path.write_bytes(self.pem)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """A store with the key in it."""
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"broker", self.key, self.certificate, None, encryption(password))
        )
        return path

    def write_trust_pkcs12(self, path: Path, password: str) -> Path:
        """A store with the certificate alone, as Java's trust stores are."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([trusted], encryption(password)))
        return path


def encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


class Authority(Certified):
    """Signs certificates that hold from yesterday until tomorrow."""

    def __init__(self, name: str = "Test Authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = named(CN=name)
        super().__init__(key, signed(subject, key, subject, key, authority=True))

    def issue(self, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), days: int = 1, **names: str) -> Certified:
        """A certificate for hosts, or for a client by ``names``. Negative ``days`` are since when it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = named(**(names or {"CN": hosts[0]}))
        return Certified(key, signed(subject, key, self.certificate.subject, self.key, hosts=hosts, days=days))


def self_signed(hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Certified:
    """A certificate that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = named(CN=hosts[0])
    return Certified(key, signed(subject, key, subject, key, hosts=hosts))


def named(**names: str) -> x509.Name:
    """A distinguished name with its parts in this order."""
    return x509.Name([x509.NameAttribute(OIDS[keyword], value) for keyword, value in names.items()])


def signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    hosts: tuple[str, ...] = (),
    days: int = 1,
    authority: bool = False,
) -> x509.Certificate:
    """One certificate."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY * (1 + abs(days)))
        .not_valid_after(now + DAY * days)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(issuer_key, SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
