"""A root of one's own: files at the paths that documents name, and nothing left on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.host.own_root import own_root

PLACE = "/etc/kafka-own-root-test"
SCRIPT = f"""
cat {PLACE}/inside /etc/hosts
echo written >{PLACE}/outside
mkdir /opt/kafka-own-root-test /journals-test
ls /run
"""


def test_what_stands_where_and_what_stays(tmp_path: Path) -> None:
    folder, hosts = tmp_path / "folder", tmp_path / "hosts"
    folder.mkdir()
    (folder / "inside").write_text("inside\n")
    hosts.write_text("127.0.0.1 kafka-101\n")
    command = [*own_root({PLACE: folder, "/etc/hosts": hosts}), "sh", "-ec", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "inside\n127.0.0.1 kafka-101\n"), done.stderr
    assert (folder / "outside").read_text() == "written\n"
    left = [place for place in (PLACE, "/opt/kafka-own-root-test", "/journals-test") if Path(place).exists()]
    assert left == []
