"""`python -m deploy.packages [FOLDER]`: build/packages by default."""

from __future__ import annotations

import sys
from pathlib import Path

from deploy.commit import ROOT

from .building import build

for package in build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "packages"):
    print(package)  # noqa: T201 - what it is for
