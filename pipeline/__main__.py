"""``python -m pipeline``, and what spark-submit is given: it runs this file alone, so the import is absolute."""

from __future__ import annotations

import sys

from pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
