"""What the kernel's files say of memory and file systems; a planted tree stands in for /proc."""

from __future__ import annotations

from pathlib import Path

from spanwire.service.doctor.facts import Memory
from spanwire.service.doctor.system import clock, file_system, memory

MEMINFO = "MemTotal:       16384 kB\nMemFree:         1024 kB\n"


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_lowest_limit_of_the_groups_around_the_process_counts(tmp_path: Path) -> None:
    proc = plant(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "0::/system.slice/broker.service\n"})
    groups = plant(
        tmp_path / "cgroup",
        {
            "system.slice/memory.max": "8388608\n",
            "system.slice/broker.service/memory.max": "max\n",
            "memory.max": "max",
        },
    )
    assert memory(proc, groups) == Memory(16 << 20, 8388608, str(groups / "system.slice/memory.max"))


def test_the_first_version_of_groups_is_read_too(tmp_path: Path) -> None:
    proc = plant(
        tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "5:memory:/docker/7a\n3:cpu,cpuacct:/docker/7a\n"}
    )
    groups = plant(
        tmp_path / "cgroup",
        {"memory/docker/7a/memory.limit_in_bytes": "4194304", "memory/memory.limit_in_bytes": "9223372036854771712"},
    )
    assert memory(proc, groups).cgroup_bytes == 4194304


def test_without_limits_the_machine_counts_and_without_files_nothing_is_known(tmp_path: Path) -> None:
    proc = plant(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "0::/\n"})
    assert memory(proc, tmp_path / "none") == Memory(16 << 20)
    assert memory(tmp_path / "none", tmp_path / "none") == Memory(None)


def test_the_innermost_mount_tells_the_file_system_and_of_two_the_upper_one(tmp_path: Path) -> None:
    data = tmp_path / "da ta" / "broker"
    data.mkdir(parents=True)
    shown = str(tmp_path / "da ta").replace(" ", "\\040")
    lines = [
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
        f"2 1 0:3 / {shown} rw shared:1 - nfs4 server:/x rw",
        f"3 1 0:4 / {shown} rw - tmpfs tmpfs rw",
        f"4 1 0:5 / {shown}-beside rw - overlay overlay rw",
        "broken",
    ]
    proc = plant(tmp_path / "proc", {"self/mountinfo": "\n".join(lines)})
    assert file_system(data, proc) == "tmpfs"
    assert file_system(Path("/usr"), proc) == "ext4"
    assert file_system(data, tmp_path / "none") == ""


def test_this_kernel_answers_or_is_not_known() -> None:
    state = clock()
    assert state.leap in (-1, 0, 1) and (state.is_known or state.max_error_us == 0)
