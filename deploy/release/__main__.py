"""`python -m deploy.release`: into dist/. What it takes besides is in the environment, see `make release`."""

from __future__ import annotations

import os
import subprocess
import sys

from .images import ImagePlan
from .publishing import release
from .source import ReleaseError

try:
    for path in release(plan=ImagePlan.of(os.environ)):
        print(path)  # noqa: T201 - what it is for
except ReleaseError as error:
    sys.exit(f"make release: {error}")
except subprocess.CalledProcessError as error:
    # What the command had to say is above: its standard error is ours.
    sys.exit(f"make release: `{' '.join(error.cmd)}` ended with status {error.returncode}")
