"""What a folder that the benchmark is given may lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import pipeline

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "measure", lambda *_, **__: iter(()))


@pytest.fixture
def homework(tmp_path: Path) -> Path:
    folder = tmp_path / "homework"
    folder.mkdir()
    (folder / "thesis").write_text("years of work")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "1e6"], "expected an empty folder, or one that this benchmark made, found others' files in"),
        (["--rows", "1e6", "--kept"], "expected a folder that a run with --keep left, found"),
        (["--rows", "1e6", "12345"], "expected a multiple of 50000 rows, found 12345"),
        (["--rows", "0"], "expected a multiple of 50000 rows, found 0"),
        (["--rows", "1e6", "5e6", "--keep"], "expected one --rows"),
    ],
)
def test_a_folder_of_others_keeps_its_files(
    arguments: list[str], message: str, homework: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        pipeline.main([*arguments, "--folder", str(homework)])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [file.name for file in homework.iterdir()] == ["thesis"]


def test_a_folder_of_its_own_is_begun_anew_and_removed_unless_it_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "build" / "pipeline"
    pipeline.main(["--rows", "1e6", "--folder", str(folder), "--keep"])
    (folder / "tables").mkdir()
    pipeline.main(["--rows", "1e6", "--folder", str(folder), "--kept", "--keep"])
    assert (folder / "tables").is_dir()
    pipeline.main(["--rows", "1e6", "--folder", str(folder), "--keep"])
    assert not (folder / "tables").exists()
    pipeline.main(["--rows", "1e6", "--folder", str(folder)])
    assert not folder.exists()
