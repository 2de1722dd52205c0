"""Setting up where Python has no ensurepip: which index, which wheel, which hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.make_environment import DEFAULT_INDEX, Links, SetupError, fetch, index_url, locked_pip

ROOT = Path(__file__).resolve().parents[3]


def test_the_index_of_the_environment_comes_before_that_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text("[global]\nindex-url = https://index.example/a/simple\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert index_url() == "https://index.example/a/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/b/simple")
    assert index_url() == "https://index.example/b/simple"


def test_without_any_setting_the_index_is_the_default_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text("[global]\nindex-url = \n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert index_url() == DEFAULT_INDEX


def test_the_lock_file_of_this_project_names_one_pip_with_hashes() -> None:
    version, hashes = locked_pip((ROOT / "requirements/pip.txt").read_text(encoding="utf-8"))
    assert version.count(".") >= 1
    assert len(hashes) == 2  # wheel and source


def test_a_lock_file_without_pip_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SetupError, match="make lock"):
        locked_pip("setuptools==80\n")


def test_the_links_of_an_index_page_are_found_with_their_fragments() -> None:
    links = Links()
    links.feed('<body><a href="../../p/pip-1-py3-none-any.whl#sha256=ab">pip</a><p href="no"><a name="x">y</a></body>')
    assert links.targets == ["../../p/pip-1-py3-none-any.whl#sha256=ab"]


def test_a_file_larger_than_its_limit_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "pip.whl"
    wheel.write_bytes(b"x" * 100)
    assert fetch(wheel.as_uri(), 100) == b"x" * 100
    with pytest.raises(SetupError, match="more than 99 bytes"):
        fetch(wheel.as_uri(), 99)


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_a_lock_file_holds_pins_with_hashes_and_nothing_of_the_machine_it_was_made_on(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    blocks = text.replace(" \\\n", " ").splitlines()
    assert blocks
    for block in blocks:
        requirement, _, hashes = block.partition(" --hash=")
        assert "==" in requirement or hashes.startswith("sha256:"), block[:80]
        assert "--hash=sha256:" in block, block[:80]
    for word in ("http:", "https:", "index-url", "find-links", "#", "@"):
        assert word not in text
