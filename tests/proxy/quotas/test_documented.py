"""docs/quotas.md, docs/client-quotas.md and examples/quotas.toml: what is shown there is taken as it is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proxy.quotas import advise, effective, parse_quotas

ROOT = Path(__file__).parents[3]
SHOWN = [
    found
    for page in ("quotas.md", "client-quotas.md")
    for found in re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)
]


@pytest.mark.parametrize("shown", SHOWN)
def test_what_the_document_shows_can_be_read(shown: str) -> None:
    assert parse_quotas(shown.encode()).sections()


def test_the_example_is_good() -> None:
    quota_file = parse_quotas((ROOT / "examples" / "quotas.toml").read_bytes())
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert effective(quota_file, 103, now).leader.bytes_per_second == 50 * 2**20
    assert advise(quota_file, 101, now) == []
