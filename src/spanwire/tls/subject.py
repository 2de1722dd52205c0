"""The distinguished name in a certificate, written as Java writes it (`X500Name.toString`), since access lists and
``TextFileCertificateLoginModule`` files hold it in that form: ``CN=orders, OU=Trade, O=Example, C=DE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, cast

# Python's names of the attributes (OpenSSL's long names) and Java's keywords.
KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "dnQualifier": "DNQ",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "serialNumber": "SERIALNUMBER",
}
QUOTED: Final = frozenset(',+=\n<>#;\\"')

RelativeName = tuple[tuple[str, str], ...]


def subject_of(certificate: Mapping[str, object] | None) -> str | None:
    """The name in what `ssl.SSLObject.getpeercert` gives; None when there is no certificate or it names nobody."""
    if not certificate:
        return None
    names = cast(tuple[RelativeName, ...], certificate.get("subject", ()))
    relative_names = [
        " + ".join(f"{KEYWORDS.get(name, name)}={_value(value)}" for name, value in relative)
        for relative in reversed(names)
    ]
    return ", ".join(relative_names) or None


def is_issued_to(certificate: Mapping[str, object], address: str) -> bool:
    """Whether one of the certificate's IP addresses is this one (RFC 2818, section 3.1). Names do not count: the broker
    knows of a client nothing but the address from which it comes, and asks nobody for a name.
    """
    try:
        expected = _address(address)
        names = cast(tuple[tuple[str, str], ...], certificate.get("subjectAltName", ()))
        return any(kind == "IP Address" and _address(text) == expected for kind, text in names)
    except ValueError:
        return False


def _address(text: str) -> IPv4Address | IPv6Address:
    """Raises ValueError. ``::ffff:10.0.0.1``, as a socket for both families has it, is 10.0.0.1."""
    parsed = ip_address(text.strip("[]").partition("%")[0])
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _value(text: str) -> str:
    """Quoted where it would not be read back as it is."""
    if not QUOTED.intersection(text) and text == text.strip() and "  " not in text:
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
