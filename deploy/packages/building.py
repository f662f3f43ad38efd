"""Lays out and packs the .deb and the .rpm, from the locked dependencies: `python -m deploy.packages`.

For each Python its libraries, as uv unpacks the locked wheels for it; a launcher takes the Python that is there.
Blocking. Invariant: the same commit gives the same bytes, since nothing in a package is newer than the commit.
"""

from __future__ import annotations

import gzip
import os
import shutil
import string
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from deploy.commit import ROOT, UV, commit_seconds, commit_time, run, version
from operating.cli import cli

FILES = Path(__file__).with_name("files")
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORM = "x86_64-manylinux_2_28"
FORMATS = ("deb", "rpm")
PROGRAM = "throttle-sidecar"


def build(into: Path) -> list[Path]:
    """Return the packages, in `into`. Raises CalledProcessError."""
    into.mkdir(parents=True, exist_ok=True)
    stage = into / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    _lay_out_libraries(stage)
    _write_manual(stage / "man")
    files = shutil.copytree(FILES, stage / "files")
    shutil.copytree(ROOT / "examples", stage / "examples")
    for path in (ROOT / "deploy" / "redirect" / "redirect.sh", ROOT / "LICENSE"):
        shutil.copy(path, files)
    _take_back_to_the_commit(stage)
    places = {
        "VERSION": version(), "MTIME": commit_time(), "STAGE": str(stage), "FILES": str(files),
        "REDIRECT": str(files / "redirect.sh"), "LICENSE": str(files / "LICENSE"), "EXAMPLES": str(stage / "examples"),
    }  # fmt: skip
    config = stage / "nfpm.yaml"
    config.write_text(string.Template(FILES.with_name("nfpm.yaml").read_text("utf-8")).substitute(places), "utf-8")
    nfpm = Path(sys.executable).with_name("nfpm")
    found = []
    for format_ in FORMATS:
        target = into / f"kafka-throttle-sidecar-{version()}.{format_}"
        run(nfpm, "package", "--packager", format_, "--config", config, "--target", target)
        found.append(target)
    shutil.rmtree(stage)
    return found


def _lay_out_libraries(stage: Path) -> None:
    """Write lib/python3.X for each Python: the packages of the lock, and this project."""
    requirements, wheels = stage / "requirements.txt", stage / "wheels"
    run(
        UV, "export", "--quiet", "--frozen", "--no-dev", "--extra=operator", "--no-emit-project",
        "--format=requirements.txt", "--output-file", requirements,
    )  # fmt: skip
    run(UV, "build", "--quiet", "--wheel", "--out-dir", wheels)
    (wheel,) = wheels.glob("*.whl")
    for python in PYTHONS:
        target = stage / "lib" / f"python{python}"
        into = ("pip", "install", "--quiet", "--no-deps", "--target", target)
        where = ("--python-version", python, "--python-platform", PLATFORM, "--only-binary=:all:")
        run(UV, *into, *where, "--require-hashes", "--requirements", requirements)
        run(UV, *into, *where, wheel)
        # The launcher is the one command; what other packages bring is nobody's here.
        shutil.rmtree(target / "bin", ignore_errors=True)
        for left in (".lock", "CACHEDIR.TAG", ".gitignore"):
            (target / left).unlink(missing_ok=True)
        _forget_the_build(target)


def _forget_the_build(target: Path) -> None:
    """Remove an installer's notes of where a package came from: they differ from machine to machine."""
    for info in target.glob("*.dist-info"):
        for name in ("direct_url.json", "uv_cache.json", "uv_build.json", "INSTALLER", "REQUESTED"):
            (info / name).unlink(missing_ok=True)
        record = info / "RECORD"
        lines = record.read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if (target / line.split(",")[0]).exists()]
        record.write_text("".join(sorted(kept)), "utf-8")


def _write_manual(folder: Path) -> None:
    """Write a page for each command, from its --help."""
    folder.mkdir()
    os.environ["SOURCE_DATE_EPOCH"] = str(commit_seconds())
    context = click.Context(cli, info_name=PROGRAM)
    commands = {name: found for name in cli.list_commands(context) if (found := cli.get_command(context, name))}
    # Ours imports a command when it is used, and click-man looks at those that are there.
    whole = click.Group(PROGRAM, commands=commands, help=cli.help, params=cli.params)
    write_man_pages(PROGRAM, whole, version=version(), target_dir=str(folder))
    for page in folder.iterdir():
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()


def _take_back_to_the_commit(stage: Path) -> None:
    """Set the times of all files to the commit's: nfpm keeps those of what it finds in folders."""
    when = float(commit_seconds())
    for path in (stage, *stage.rglob("*")):
        os.utime(path, (when, when), follow_symlinks=False)
