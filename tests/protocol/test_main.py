"""The frames and what Kafka's own converters say of them come from tests/protocol/golden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from protocol.__main__ import main
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).with_name("golden")


class Printed(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def decode(capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    """`python -m protocol` in this process."""

    def call(*arguments: object) -> Printed:
        status = main([str(each) for each in arguments])
        return Printed(status, *capsys.readouterr())

    return call


def golden(kind: str) -> dict[str, Any]:
    """The last golden frame of a supported version."""
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    found: dict[str, Any] = [
        line for line in lines if line["kind"] == kind and line["apiVersion"] in SUPPORTED_FETCH_VERSIONS
    ][-1]
    return found


@pytest.mark.parametrize("kind", ["request", "response"])
def test_a_frame_is_printed_as_kafka_does(decode: Callable[..., Printed], kind: str) -> None:
    said = golden(kind)
    path = GOLDEN / "frames" / said["file"]
    version = said["apiVersion"]
    result = decode("--kind", kind, "--api-version", version, path)
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert list(printed) == ["file", "apiKey", "apiVersion", "correlationId", "clientId", "body"]
    assert printed["file"] == str(path)
    assert printed["body"] == said["body"]


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
def test_every_frame_of_every_version_is_printed_as_kafka_does(
    decode: Callable[..., Printed], kind: str, version: int
) -> None:
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    said = [line for line in lines if (line["kind"], line["apiVersion"]) == (kind, version)]
    files = [GOLDEN / "frames" / line["file"] for line in said]
    result = decode("--kind", kind, "--api-version", version, *files)
    assert result.exit_code == 0
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == [line["body"] for line in said]


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
def test_a_frame_may_have_its_length_before_it(
    decode: Callable[..., Printed], tmp_path: Path, kind: str, version: int
) -> None:
    """As it is on the wire; it was "no Fetch request"."""
    lines = map(json.loads, (GOLDEN / "fetch.jsonl").read_text().splitlines())
    said = [line for line in lines if (line["kind"], line["apiVersion"]) == (kind, version)]
    for number, line in enumerate(said):
        frame = (GOLDEN / "frames" / line["file"]).read_bytes()
        (tmp_path / f"{number:03}.bin").write_bytes(len(frame).to_bytes(4) + frame)
    result = decode("--kind", kind, "--api-version", version, *sorted(tmp_path.iterdir()))
    assert result.exit_code == 0, result.stdout
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == [line["body"] for line in said]


def test_a_correlation_id_that_reads_like_a_length_is_one(decode: Callable[..., Printed], tmp_path: Path) -> None:
    said = golden("response")
    frame = (GOLDEN / "frames" / said["file"]).read_bytes()
    (tmp_path / "answer.bin").write_bytes((len(frame) - 4).to_bytes(4) + frame[4:])
    result = decode("--kind", "response", "--api-version", said["apiVersion"], tmp_path / "answer.bin")
    printed = json.loads(result.stdout)
    assert (printed["correlationId"], printed["body"]) == (len(frame) - 4, said["body"])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/dev/zero", "cannot be read: expected a file, found a device"),
        ("/tmp", "cannot be read: Is a directory"),
        ("long.bin", "cannot be read: expected at most 67108864 bytes, found a larger file"),
    ],
)
def test_what_is_no_frame_is_not_read_into_memory(
    decode: Callable[..., Printed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    """A device was read until the machine had no memory left."""
    monkeypatch.chdir(tmp_path)
    with Path("long.bin").open("wb") as sparse:
        sparse.truncate(2**40)
    result = decode(path)
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"file": path, "error": problem}


def test_each_file_has_its_line_and_one_bad_frame_fails_all(decode: Callable[..., Printed], tmp_path: Path) -> None:
    good = GOLDEN / "frames" / golden("request")["file"]
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"\x00\x01")
    result = decode(good, bad, tmp_path / "nowhere.bin", tmp_path)
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["body" in line for line in lines] == [True, False, False, False]
    assert lines[1].keys() == {"file", "error"}
    assert lines[2]["error"] == "cannot be read: No such file or directory"
    assert lines[3]["error"] == "cannot be read: Is a directory"
    assert result.stderr == ""


def test_an_unknown_version_is_an_error_not_a_traceback(decode: Callable[..., Printed]) -> None:
    path = GOLDEN / "frames" / golden("response")["file"]
    result = decode("--kind", "response", "--api-version", 999, path)
    assert result.exit_code == 1
    assert json.loads(result.stdout).keys() == {"file", "error"}


def test_without_a_file_it_is_a_usage_error(decode: Callable[..., Printed]) -> None:
    with pytest.raises(SystemExit, match="2"):
        decode()


def test_a_name_that_a_terminal_would_obey_is_escaped(decode: Callable[..., Printed], tmp_path: Path) -> None:
    result = decode(tmp_path / "\x1b[2J\udcff")
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout


def test_it_reads_standard_input() -> None:
    """As in a container, which does not have the file."""
    path = GOLDEN / "frames" / golden("request")["file"]
    with path.open("rb") as frame:
        command = [sys.executable, "-m", "protocol", "-"]
        done = subprocess.run(command, stdin=frame, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout)["body"] == golden("request")["body"]


def test_as_a_program_it_says_that_its_output_cannot_be_written() -> None:
    """Into a file on a full disk."""
    path = GOLDEN / "frames" / golden("request")["file"]
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "protocol", path]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")
