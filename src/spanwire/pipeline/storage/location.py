"""Addresses of directories: a path, or a URI of a file system of PyArrow.

| address | file system |
|---|---|
| `/data/staging`, `file:///data/staging` | a local or mounted disk |
| `s3://bucket/staging`, `s3a://…` | S3 and stores with the S3 protocol |
| `gs://bucket/staging`, `gcs://…` | Google Cloud Storage |
| `hdfs://host:port/staging`, `viewfs://…` | HDFS |
| `abfs://…`, `abfss://…` | Azure |

Credentials come from the environment. Addresses with credentials are refused, because errors and plans show addresses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from spanwire.model.errors import ConfigurationError

FILE: Final = "file"
S3: Final = "s3"
# Schemes of Hadoop and PyArrow, mapped to PyArrow's scheme of the same file system.
SCHEMES: Final = {
    "file": FILE,
    "s3": S3,
    "s3a": S3,
    "gs": "gs",
    "gcs": "gs",
    "hdfs": "hdfs",
    "viewfs": "viewfs",
    "abfs": "abfs",
    "abfss": "abfss",
}
S3_OPTIONS: Final = ("endpoint_override", "region", "scheme")
URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
ONE_SLASH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/[^/].*|)", re.DOTALL)  # Hadoop writes file:/data


@dataclass(frozen=True, slots=True)
class Location:
    """A directory of a shared file system."""

    scheme: str
    authority: str
    path: str
    query: str

    def __str__(self) -> str:
        """Return the address without options."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def options(self) -> dict[str, str]:
        """Return the options after the question mark."""
        return dict(parse_qsl(self.query))


def child(text: str, names: str) -> str:
    """Return the address of a subdirectory, with the options of the directory."""
    address, mark, query = text.partition("?")
    return f"{address.rstrip('/')}/{names}{mark}{query}"


def is_uri(text: str) -> bool:
    """Return True if a text is an address with a scheme, and not a path."""
    match = ONE_SLASH.fullmatch(text)
    return URI.fullmatch(text) is not None or (match is not None and match[1].lower() in SCHEMES)


def absolute(text: str) -> str:
    """Return the absolute form of a path, or an address with a scheme unchanged."""
    return text if is_uri(text) else str(Path(text).absolute())


def local_path(text: str) -> Path | None:
    """Return the path of an address on a local or mounted disk, or ``None`` for another file system.

    Raises:
        ConfigurationError: there is no such file system, or the address is faulty.
    """
    return None if isinstance(directory := parse(text), Location) else directory


def parse(text: str) -> Path | Location:
    """Return the directory of an address.

    Raises:
        ConfigurationError: there is no such file system, or the address is faulty or has credentials.
    """
    match = URI.fullmatch(text)
    if match is None:
        match = ONE_SLASH.fullmatch(text)
        if match is None or match[1].lower() not in SCHEMES:
            return Path(text)
        if match[1].lower() != FILE:
            raise ConfigurationError(f"spanwire: {match[1]}: is not followed by //; write {match[1]}://…")
        return Path(unquote(match[2]))
    scheme = SCHEMES.get(match[1].lower())
    if scheme is None:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(
            f"spanwire: there is no file system {match[1][:20]}:// for staged messages and archives; write a path, or "
            f"one of {known}"
        )
    address, _, query = match[2].partition("?")
    authority, slash, path = address.partition("/")
    if scheme == FILE:
        if authority not in ("", "localhost"):
            raise ConfigurationError(f"spanwire: file://{authority}/… names another machine; write file:///PATH")
        return Path(unquote(slash + path))
    location = Location(scheme, authority, (slash + path).rstrip("/"), query)
    _check(location)
    return location


def _check(location: Location) -> None:
    user, at, _ = location.authority.rpartition("@")
    if (at and (location.scheme == S3 or ":" in user)) or "@" in unquote(location.query):
        raise ConfigurationError(
            f"spanwire: an address {location.scheme}://… is shown in errors and plans, so it must have no credentials; "
            "set them in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if location.scheme != S3:
        return
    if not location.authority:
        raise ConfigurationError("spanwire: s3:// is not followed by the name of a bucket; write s3://BUCKET/DIRECTORY")
    for name in location.options:
        if name not in S3_OPTIONS:
            known = ", ".join(S3_OPTIONS)
            raise ConfigurationError(f"spanwire: {location}: there is no option {name[:60]!r}; there are {known}")
