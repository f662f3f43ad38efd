"""``python -m pipeline``, and what spark-submit is given: it runs this file alone, so the import is absolute."""

from __future__ import annotations

import sys

try:
    from pipeline.cli import main
except ModuleNotFoundError as error:
    if error.name not in {"py4j", "pyspark", "vl_convert"}:
        raise
    advice = "pip install '.[pipeline]' in this project's folder, or with its wheel's path for the dot"
    sys.exit(f"Error: python -m pipeline needs the extra pipeline: {advice} ({error})")

if __name__ == "__main__":
    sys.exit(main())
