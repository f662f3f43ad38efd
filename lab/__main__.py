"""`python -m lab`: see `lab.cli`."""

from __future__ import annotations

from .cli import main

main()
