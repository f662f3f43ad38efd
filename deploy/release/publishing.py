"""Everything that is published of a commit, in dist/: `python -m deploy.release`, which `make release` runs.

Wheel, sdist, chart, .deb, .rpm, a bill of materials (CycloneDX) of what the image and the packages ship, the changes
since the last tag, and the checksums of all of it. Blocking. Invariant: the same commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

from lab.kubernetes.clients import helm_command

from .packages.building import ROOT, build, version

if TYPE_CHECKING:
    from pathlib import Path

DIST = ROOT / "dist"
SUMS = "SHA256SUMS"
_UV = ROOT / ".tools" / "bin" / "uv"


def release(into: Path = DIST) -> list[Path]:
    """Return what was made. Raises CalledProcessError."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    _run(_UV, "build", "--quiet", "--out-dir", into)
    (into / ".gitignore").unlink(missing_ok=True)
    build(into)
    _pack_chart(into)
    write_materials(into / f"kafka-throttle-sidecar-{version()}.cdx.json")
    (into / "CHANGES.md").write_text(changes(), "utf-8")
    made = sorted(into.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (into / SUMS).write_text("".join(sums), "utf-8")
    return [*made, into / SUMS]


def _pack_chart(into: Path) -> None:
    """helm notes the time of packing in the archive; it is taken as of the commit."""
    _run(helm_command(), "package", ROOT / "deploy" / "helm", "--destination", into)
    archive = into / f"kafka-throttle-sidecar-{version()}.tgz"
    unpacked = into / "chart"
    unpacked.mkdir()
    _run("tar", "-xzf", archive, "-C", unpacked)
    when = ("--sort=name", f"--mtime=@{_seconds()}", "--owner=0", "--group=0", "--numeric-owner")
    _run("tar", *when, "-C", unpacked, "-cf", archive.with_suffix(".tar"), "kafka-throttle-sidecar")
    _run("gzip", "-n", "-9", "-f", archive.with_suffix(".tar"))
    archive.with_suffix(".tar.gz").rename(archive)
    shutil.rmtree(unpacked)


def write_materials(path: Path) -> None:
    """The bill of materials, as uv has it, without what differs from run to run."""
    which = ("--frozen", "--no-dev", "--extra=operator", "--format=cyclonedx1.5")
    found: dict[str, Any] = json.loads(_run(_UV, "export", "--quiet", *which))
    found["metadata"]["timestamp"] = _run("git", "log", "-1", "--format=%cI").strip()
    found["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, _commit())}"
    path.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


def changes() -> str:
    """What was done since the last tag: the first line of each commit."""
    tags = _run("git", "tag", "--list", "--merged", "HEAD", "--sort=-creatordate").split()
    since = f"{tags[0]}..HEAD" if tags else "HEAD"
    lines = _run("git", "log", "--no-merges", "--format=- %s", since)
    return f"# {version()}\n\nCommit {_commit()}{f', since {tags[0]}' if tags else ''}.\n\n{lines}"


def _commit() -> str:
    return _run("git", "rev-parse", "HEAD").strip()


def _seconds() -> str:
    return _run("git", "log", "-1", "--format=%ct").strip()


def _run(*command: str | Path) -> str:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1580601600"}
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    for path in release():
        print(path)  # noqa: T201 - what it is for
