from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.quota_files.quota_file import read_quotas_file
from proxy.quotas.whole_file import MOST_BYTES, parse_to_write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected TOML, found nothing"),
        (b" \r\n\t\n", "expected TOML, found nothing"),
        (b"#" * (MOST_BYTES + 1), f"expected at most {MOST_BYTES} bytes, found "),
        (b"[nonsense]\n", "nonsense: unknown key"),
        (b"#" * MOST_BYTES, None),
        (b"# none", None),
    ],
)
def test_what_may_be_written_is_what_is_read(tmp_path: Path, content: bytes, problem: str | None) -> None:
    path = tmp_path / "q.toml"
    path.write_bytes(content)
    if problem is None:
        assert parse_to_write(content, source="q.toml") == read_quotas_file(path).quota_file
        return
    with pytest.raises(ConfigurationError, match=f"^q.toml: {problem}"):
        parse_to_write(content, source="q.toml")
    with pytest.raises(ConfigurationError, match=f"q.toml: {problem.removesuffix('found ')}"):
        read_quotas_file(path)
