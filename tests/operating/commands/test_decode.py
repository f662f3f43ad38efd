"""The frames and what Kafka's own converters say of them come from tests/protocol/golden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    Sidecar = Callable[..., Result]

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden"


def golden(kind: str) -> dict[str, Any]:
    """The last golden frame of a supported version."""
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    found: dict[str, Any] = [
        line for line in lines if line["kind"] == kind and line["apiVersion"] in SUPPORTED_FETCH_VERSIONS
    ][-1]
    return found


@pytest.mark.parametrize("kind", ["request", "response"])
def test_a_frame_is_printed_as_kafka_does(sidecar: Sidecar, kind: str) -> None:
    said = golden(kind)
    path = GOLDEN / "frames" / said["file"]
    version = said["apiVersion"]
    result = sidecar("decode", "--kind", kind, "--api-version", version, path)
    assert result.exit_code == 0
    printed = json.loads(result.output)
    assert list(printed) == ["file", "apiKey", "apiVersion", "correlationId", "clientId", "body"]
    assert printed["file"] == str(path)
    assert printed["body"] == said["body"]


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
def test_every_frame_of_every_version_is_printed_as_kafka_does(sidecar: Sidecar, kind: str, version: int) -> None:
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    said = [line for line in lines if (line["kind"], line["apiVersion"]) == (kind, version)]
    files = [GOLDEN / "frames" / line["file"] for line in said]
    result = sidecar("decode", "--kind", kind, "--api-version", version, *files)
    assert result.exit_code == 0
    assert [json.loads(line)["body"] for line in result.output.splitlines()] == [line["body"] for line in said]


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
def test_a_frame_may_have_its_length_before_it(sidecar: Sidecar, tmp_path: Path, kind: str, version: int) -> None:
    """As it is on the wire; it was "no Fetch request"."""
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    said = [line for line in lines if (line["kind"], line["apiVersion"]) == (kind, version)]
    for number, line in enumerate(said):
        frame = (GOLDEN / "frames" / line["file"]).read_bytes()
        (tmp_path / f"{number:03}.bin").write_bytes(len(frame).to_bytes(4) + frame)
    result = sidecar("decode", "--kind", kind, "--api-version", version, *sorted(tmp_path.iterdir()))
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["body"] for line in result.output.splitlines()] == [line["body"] for line in said]


def test_a_correlation_id_that_reads_like_a_length_is_one(sidecar: Sidecar, tmp_path: Path) -> None:
    said = golden("response")
    frame = (GOLDEN / "frames" / said["file"]).read_bytes()
    (tmp_path / "answer.bin").write_bytes((len(frame) - 4).to_bytes(4) + frame[4:])
    result = sidecar("decode", "--kind", "response", "--api-version", said["apiVersion"], tmp_path / "answer.bin")
    printed = json.loads(result.output)
    assert (printed["correlationId"], printed["body"]) == (len(frame) - 4, said["body"])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/dev/zero", "cannot be read: expected a file, found a device"),
        ("/tmp", "cannot be read: expected a file, found a directory"),
        ("long.bin", "expected at most 67108864 bytes, found a larger file"),
    ],
)
def test_what_is_no_frame_is_not_read_into_memory(
    sidecar: Sidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    """A device was read until the machine had no memory left."""
    monkeypatch.chdir(tmp_path)
    with Path("long.bin").open("wb") as sparse:
        sparse.truncate(2**40)
    result = sidecar("decode", path)
    assert result.exit_code == 1
    assert json.loads(result.output) == {"file": path, "error": problem}


def test_each_file_has_its_line_and_one_bad_frame_fails_all(sidecar: Sidecar, tmp_path: Path) -> None:
    good = GOLDEN / "frames" / golden("request")["file"]
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"\x00\x01")
    result = sidecar("decode", good, bad, tmp_path / "nowhere.bin", tmp_path)
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["body" in line for line in lines] == [True, False, False, False]
    assert lines[1].keys() == {"file", "error"}
    assert lines[2]["error"] == "cannot be read: No such file or directory"
    assert lines[3]["error"] == "cannot be read: expected a file, found a directory"
    assert result.stderr == ""


def test_an_unknown_version_is_an_error_not_a_traceback(sidecar: Sidecar) -> None:
    path = GOLDEN / "frames" / golden("response")["file"]
    result = sidecar("decode", "--kind", "response", "--api-version", 999, path)
    assert result.exit_code == 1
    assert json.loads(result.stdout).keys() == {"file", "error"}


def test_without_a_file_it_is_a_usage_error(sidecar: Sidecar) -> None:
    assert sidecar("decode").exit_code == 2
