"""`python -m lab`: see `lab.cli`."""

from .cli import main

main()
