from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.quota_files.quota_file import MOST_BYTES, load_quotas_file, read_quotas_file

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text("[mode]\nenforce = false")
    mode = load_quotas_file(path).base.mode
    assert mode is not None
    assert mode.enforce is False


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        load_quotas_file(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_a_file_caught_while_it_is_written_lifts_no_quota(tmp_path: Path, content: str) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="found nothing"):
        load_quotas_file(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"#" * (MOST_BYTES + 1), f"expected at most {MOST_BYTES} bytes"),
        (b"#" * MOST_BYTES, None),
        (b"# none", None),
    ],
    ids=range(3),
)
def test_how_long_a_file_may_be(tmp_path: Path, content: bytes, problem: str | None) -> None:
    path = tmp_path / "q.toml"
    path.write_bytes(content)
    if problem is None:
        assert list(read_quotas_file(path).quota_file.sections()) == []
        return
    with pytest.raises(ConfigurationError, match=f"q.toml: {problem}"):
        read_quotas_file(path)
