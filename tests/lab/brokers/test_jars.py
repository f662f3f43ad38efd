from __future__ import annotations

from pathlib import Path

import pytest

from lab.brokers.jars import Fetched, cache_directory, kafka_jars, scala_version
from lab.errors import LabError

FAKE_MVN = """#!/bin/sh
echo called >> "{calls}"
for argument; do
  case "$argument" in
    -DoutputDirectory=*) out="${{argument#*=}}" ;;
    -Dkafka.version=*) version="${{argument#*=}}" ;;
  esac
done
echo "[INFO] Downloading from central: https://repo/a.pom"
echo "[INFO] Downloaded from central: https://repo/a.pom (812 B at 1.2 kB/s)"
echo "Downloaded from central: https://repo/b.jar (1.5 MB at 3.0 MB/s)"
[ "$version" = 0.0 ] && {{ echo "no such version"; exit 1; }}
mkdir -p "$out" && : > "$out/kafka-clients-$version.jar"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a java and a mvn that do as little as possible, and the system's own commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("java", "#!/bin/sh\n"), ("mvn", FAKE_MVN.format(calls=tmp_path / "calls"))):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for name in ("mkdir", "sh"):
        (folder / name).symlink_to(Path("/bin", name))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_maven_is_called_once(tools: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = kafka_jars("9.9", cache=cache), kafka_jars("9.9", cache=cache)
    assert first == second
    assert [jar.name for jar in first.iterdir()] == ["kafka-clients-9.9.jar"]
    assert (tmp_path / "calls").read_text() == "called\n"
    assert [folder.name for folder in cache.iterdir()] == [first.name]


def test_what_maven_has_brought_is_told_file_by_file(tools: Path, tmp_path: Path) -> None:
    told: list[Fetched] = []
    kafka_jars("9.9", cache=tmp_path / "cache", tell=told.append)
    assert told == [(1, 812), (2, 1_500_812)]
    kafka_jars("9.9", cache=tmp_path / "cache", tell=told.append)
    assert len(told) == 2


def test_mavens_last_words_are_told_and_nothing_is_left(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"Kafka 0\.0:\nno such version"):
        kafka_jars("0.0", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(("missing", "advice"), [("java", "Java 17"), ("mvn", "apt-get install maven")])
def test_what_is_missing_is_named(tools: Path, tmp_path: Path, missing: str, advice: str) -> None:
    (tools / missing).unlink()
    with pytest.raises(LabError, match=f"`{missing}` was not found.*{advice}"):
        kafka_jars("9.9", cache=tmp_path / "cache")


def test_jars_that_are_there_need_no_maven(tools: Path, tmp_path: Path) -> None:
    found = kafka_jars("9.9", cache=tmp_path / "cache")
    (tools / "mvn").unlink()
    assert kafka_jars("9.9", cache=tmp_path / "cache") == found


@pytest.mark.parametrize(
    ("kafka", "scala"),
    [("0.10.1.1", "2.11"), ("1.0.2", "2.11"), ("2.4.0", "2.13"), ("3.9.1", "2.13"), ("4.1.0", "2.13")],
)
def test_each_release_has_its_scala(kafka: str, scala: str) -> None:
    assert scala_version(kafka) == scala


def test_cache_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "kafka-throttle-sidecar"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "kafka-throttle-sidecar"
