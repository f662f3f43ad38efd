"""`python -m fuzz`."""

from .cli import main

main()
