"""`python -m deploy.grafana`: write the dashboard's JSON."""

from __future__ import annotations

from .dashboard import FILE, as_json

FILE.write_text(as_json(), encoding="utf-8")
