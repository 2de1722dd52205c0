from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import read_options
from spanwire.pipeline.storage.location import Location, absolute, child, local_path, parse


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/staging", "/data/staging"),
        ("staging", "staging"),
        ("a:b/c", "a:b/c"),
        ("file:///data/a%20b", "/data/a b"),
        ("file://localhost/data", "/data"),
        ("file:/data", "/data"),
        ("FILE:///data", "/data"),
    ],
)
def test_paths_and_addresses_of_files_are_local(text: str, path: str) -> None:
    assert (parse(text), local_path(text)) == (Path(path), Path(path))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://bucket/a/b", "s3://bucket/a/b"),
        ("S3://bucket", "s3://bucket"),
        ("s3://bucket/a/?region=eu-west-1", "s3://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("hdfs://user@name:8020/a", "hdfs://user@name:8020/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
    ],
)
def test_other_addresses_are_shared_and_shown_without_options(text: str, shown: str) -> None:
    location = parse(text)
    assert isinstance(location, Location)
    assert (str(location), local_path(text), absolute(text)) == (shown, None, text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("s3://key:hidden@bucket/a", "must have no credentials; set them in the environment"),
        ("s3://key@bucket/a", "must have no credentials"),
        ("gs://user:hidden@bucket/a", "must have no credentials"),
        ("s3://bucket/a?endpoint_override=http://user:hidden@host", "must have no credentials"),
        ("s3://bucket/a?endpoint_override=http://user:hidden%40host", "must have no credentials"),
        ("s3://bucket/a?secret_key=hidden", "there is no option 'secret_key'; there are endpoint_override, region"),
        ("s3:///a", "is not followed by the name of a bucket"),
        ("s3:/bucket/a", "is not followed by //"),
        ("s3a:", "is not followed by //"),
        ("ftp://host/a", "there is no file system ftp://"),
        ("file://host/a", "names another machine; write file:///PATH"),
    ],
)
def test_a_faulty_address_is_refused_with_the_options_and_its_secrets_are_not_shown(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as caught:
        read_options({"destination": "ORDERS", "stagingDirectory": text})
    assert "hidden" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_relative_path_becomes_absolute_and_an_address_stays() -> None:
    assert absolute("staging") == str(Path.cwd() / "staging")
    assert absolute("s3a://bucket/staging") == "s3a://bucket/staging"


def test_a_directory_inside_of_another_keeps_the_options() -> None:
    assert child("s3://bucket/a/?region=x", "_archive/staging") == "s3://bucket/a/_archive/staging?region=x"
    assert child("s3://bucket/a", "b") == "s3://bucket/a/b"
