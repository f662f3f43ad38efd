"""`python -m deploy`: write what is derived from other files of deploy/."""

from __future__ import annotations

from .derived import derived

for path, content in derived().items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
