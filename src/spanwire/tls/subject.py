"""The subject of a certificate in Java's form (`X500Name.toString`).

Access lists and ``TextFileCertificateLoginModule`` files use this form: ``CN=orders, OU=Trade, O=Example, C=DE``.
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
    """Return the subject in the result of `ssl.SSLObject.getpeercert`, or None."""
    if not certificate:
        return None
    names = cast(tuple[RelativeName, ...], certificate.get("subject", ()))
    relative_names = [
        " + ".join(f"{KEYWORDS.get(name, name)}={_value(value)}" for name, value in relative)
        for relative in reversed(names)
    ]
    return ", ".join(relative_names) or None


def is_issued_to(certificate: Mapping[str, object], address: str) -> bool:
    """Return True if the certificate has this IP address (RFC 2818, section 3.1).

    Host names do not count. The broker knows only the address of a client, and resolves no names.
    """
    try:
        expected = _address(address)
        names = cast(tuple[tuple[str, str], ...], certificate.get("subjectAltName", ()))
        return any(kind == "IP Address" and _address(text) == expected for kind, text in names)
    except ValueError:
        return False


def _address(text: str) -> IPv4Address | IPv6Address:
    """Return the parsed address; ``::ffff:10.0.0.1`` of a socket for both families is 10.0.0.1.

    Raises:
        ValueError: the text is no address
    """
    parsed = ip_address(text.strip("[]").partition("%")[0])
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _value(text: str) -> str:
    """Return the value, quoted if it would otherwise be read back differently."""
    if not QUOTED.intersection(text) and text == text.strip() and "  " not in text:
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
