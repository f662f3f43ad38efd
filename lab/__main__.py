"""`python -m lab`: see `lab.cli`."""

from __future__ import annotations

import sys

from .extra import missing_extra

try:
    from .cli import main
except ModuleNotFoundError as error:
    sys.exit(f"Error: {missing_extra('python -m lab', error)}")

main()
