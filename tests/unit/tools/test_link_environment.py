from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/link_environment.py"


def run(python: str | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *arguments], capture_output=True, text=True, check=False)


def test_packages_of_another_environment_can_be_imported_after_the_own_ones(tmp_path: Path) -> None:
    for name in ("one", "two"):
        venv.create(tmp_path / name, symlinks=True)
        (packages,) = (tmp_path / name).glob("lib/python*/site-packages")
        (packages / "shared.py").write_text(f"name = {name!r}\n", encoding="utf-8")
    (packages / "only_in_two.py").write_text("", encoding="utf-8")
    python = tmp_path / "one/bin/python"
    assert run(python, str(TOOL), str(tmp_path / "two")).returncode == 0
    answer = run(python, "-c", "import only_in_two, shared; print(shared.name)")
    assert (answer.stdout.strip(), answer.stderr) == ("one", "")


def test_what_is_no_environment_is_refused_in_one_line(tmp_path: Path) -> None:
    answer = run(sys.executable, str(TOOL), str(tmp_path))
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert str(tmp_path) in answer.stderr
