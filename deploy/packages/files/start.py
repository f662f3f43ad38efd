"""The start of throttle-sidecar: finds its libraries, and no others."""

import sys
from pathlib import Path

version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
sys.path[:0] = [str(Path(__file__).with_name(version))]
sys.argv[0] = "throttle-sidecar"

from operating.cli import main  # noqa: E402 - it is found from here on

main()
