from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.files.watching import is_mounted_alone

MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:5 / /etc/quotas rw - tmpfs tmpfs rw
24 22 254:0 /x {file} ro,relatime master:1 - ext4 /dev/vda rw
"""
OPEN = """
import pathlib, sys
from proxy.quota_files.reload import QuotaWatch
from tests.proxy.recorded_log import RecordedLog

log = RecordedLog()
watch = QuotaWatch.open(pathlib.Path(sys.argv[1]), broker_id=101, log=log)
print(watch.never_changes, *log.events)
"""


@pytest.mark.parametrize(
    ("mounted", "asked", "alone"),
    [
        ("quotas.toml", "quotas.toml", True),
        ("two words.toml", "two words.toml", True),
        ("quotas.toml", "other.toml", False),
        ("quotas.toml", "link.toml", True),
        ("quotas.toml/..", "quotas.toml", False),
    ],
)
def test_a_file_that_is_a_mount_point(mounted: str, asked: str, alone: bool, tmp_path: Path) -> None:
    (tmp_path / "link.toml").symlink_to("quotas.toml")
    info = tmp_path / "mountinfo"
    info.write_text(MOUNTINFO.format(file=str(tmp_path / mounted).replace(" ", r"\040")))
    assert is_mounted_alone(tmp_path / asked, info) is alone


def test_where_the_kernel_does_not_say_nothing_is_said(tmp_path: Path) -> None:
    assert not is_mounted_alone(tmp_path / "quotas.toml", tmp_path / "nowhere")


def test_it_is_warned_of_once_at_start(tmp_path: Path) -> None:
    """A bind mount of one file and of its directory, as subPath and a whole volume make them (needs root)."""
    assert shutil.which("unshare"), "`unshare` was not found on PATH: apt-get install util-linux"
    for name in ("volume", "whole"):
        (tmp_path / name).mkdir()
    for name in ("volume/quotas.toml", "single.toml"):
        (tmp_path / name).write_text("# no quotas\n")
    script = (
        'set -e; mount --make-rprivate /; mount --bind "$1/volume" "$1/whole"; '
        'mount --bind "$1/volume/quotas.toml" "$1/single.toml"; '
        'for file in single.toml whole/quotas.toml; do "$2" -c "$3" "$1/$file"; done'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, OPEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert (done.stdout, done.stderr) == ("True quotas_file_mounted_alone\nFalse\n", "")
