"""That the process starts, ends on SIGTERM and refuses what is wrong; what it does in between is
proxy.serving's."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

LIMIT_SECONDS = 20


def test_it_starts_logs_json_and_ends_on_sigterm(config: Path) -> None:
    code = "from operating.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "run", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "started"
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
    events = [json.loads(line)["event"] for line in output.splitlines()]
    assert events[-1] == "stopped"
    assert (process.returncode, errors) == (0, b"")


def test_a_thread_keeps_the_interpreter_for_half_a_millisecond(config: Path) -> None:
    code = (
        "import sys, trio\ntrio.run = lambda _: print(sys.getswitchinterval())\nfrom operating.cli import main; main()"
    )
    said = subprocess.check_output([sys.executable, "-c", code, "run", "--config", config], timeout=LIMIT_SECONDS)
    assert float(said) == pytest.approx(0.0005)


def test_python_looks_for_no_garbage_while_the_sidecar_is_loaded(config: Path) -> None:
    code = "import gc, trio\ntrio.run = lambda _: print(gc.isenabled())\nfrom operating.cli import main; main()"
    said = subprocess.check_output([sys.executable, "-c", code, "run", "--config", config], timeout=LIMIT_SECONDS)
    assert said == b"False\n"


def test_whoever_runs_it_within_a_program_has_the_collector_back(config: Path, sidecar: Sidecar) -> None:
    config.write_text("[broker]")
    assert sidecar("run", "--config", config).exit_code == 1
    assert gc.isenabled()


def test_it_takes_what_set_says_at_once(config: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from operating.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", code, "run", "--config", config], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            url = f"http://{json.loads(process.stdout.readline())['http']}"
            key = "leader.replication.throttled.rate"
            monkeypatch.chdir(config.parent)
            result = sidecar("set", key, "7MiB/s", "--for", "2h")
            shown = json.loads(sidecar("status", "--json", "--url", url).output)
        finally:
            process.kill()
    assert result.exit_code == 0, result.output
    assert "now  7.00 MiB/s (7340032 B/s)  (override " in result.output
    leader = shown["roles"]["leader"]
    assert leader["quota_bytes_per_second"] == 7 * 2**20
    assert leader["until"] == shown["quotas"]["next_change"]["at"]
    assert shown["quotas"]["next_change"]["roles"]["leader"]["quota_bytes_per_second"] == 20_000_000


def test_a_port_in_use_ends_it_with_a_message(config: Path, sidecar: Sidecar) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = sidecar("run", "--config", config, "--set", f"http.listen=127.0.0.1:{port}")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert f"http.listen: cannot listen on 127.0.0.1:{port}: Address already in use" in result.stderr


def test_a_wrong_proxy_file_ends_it_with_a_message(config: Path, sidecar: Sidecar) -> None:
    config.write_text("[broker]")
    result = sidecar("run", "--config", config)
    assert result.exit_code == 1
    assert "broker.id: missing" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("content", ["x", "", None])
def test_whatever_the_quotas_are_like_it_starts_with_the_last_good_ones_of_the_run_before(
    config: Path, content: str | None
) -> None:
    """A typo in a ConfigMap and a process that is killed are no end of replication."""
    quotas = config.parent / "quotas.toml"
    good = "[brokers.101]\nleader.replication.throttled.rate = 1234567\n"
    quotas.write_text(good)
    state = config.parent / ".quotas.toml.last-good"
    with started(config) as process:
        assert next_event(process)["event"] == "started"
        deadline = time.monotonic() + LIMIT_SECONDS
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        quotas.unlink() if content is None else quotas.write_text(content)
        process.kill()
    with started(config) as process:
        told = next_event(process)
        assert (told["event"], told["in_force"]) == ("quotas_bad_at_start", "last_good")
        assert "quotas.toml: " in str(told["error"])
        with urllib.request.urlopen(f"http://{next_event(process)['http']}/throttle") as answer:
            assert json.load(answer)["roles"]["leader"]["quota_bytes_per_second"] == 1234567
    state.unlink()
    with started(config) as process:
        told = next_event(process)
        assert (told["event"], told["in_force"]) == ("quotas_bad_at_start", "none")
        url = f"http://{next_event(process)['http']}"
        with urllib.request.urlopen(f"{url}/readyz") as answer:
            ready = json.load(answer)
        assert ready["ready"]
        assert [each["name"] for each in ready["conditions"]][:1] == ["no_quotas"]
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            assert b'replication_throttle_quotas_in_force{source="none"} 1.0' in answer.read()


@contextmanager
def started(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    code = "from operating.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", code, "run", "--config", config], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def next_event(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found
