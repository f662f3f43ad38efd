"""Sockets that systemd listens on: by unit, and a whole sidecar that is started by the first connection."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from lab.host.addresses import held_ports
from lab.sidecars.sidecars import throttle_sidecar_script
from proxy.config.settings_values import Address
from proxy.errors import ConfigurationError
from proxy.process.systemd import PassedSockets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = "127.0.0.1"
CONFIG = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:{kafka}"
upstream = "127.0.0.1:{broker}"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:{http}"
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def passed_on(stack: ExitStack, *sockets: socket.socket) -> int:
    """Put copies of these at descriptors that follow each other; return the first."""
    first = 500
    for number, sock in enumerate(sockets, first):
        os.dup2(sock.fileno(), number)
        stack.callback(_close, number)
    return first


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        assert descriptor >= 500  # it was taken, and closed by who took it


def environment(count: object, process: int | None = None) -> dict[str, str]:
    return {"LISTEN_PID": str(process or os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": "a:b"}


def test_each_socket_is_found_by_its_address_and_once(stack: ExitStack) -> None:
    one, other = (stack.enter_context(socket.create_server((HERE, 0))) for _ in range(2))
    environ = environment(2)
    passed = PassedSockets.of(environ, first=passed_on(stack, one, other))
    assert environ == {}
    found = passed.take_socket(Address(*other.getsockname()))
    assert found is not None
    with found:
        assert found.getsockname() == other.getsockname()
        assert not os.get_inheritable(found.fileno())
        assert passed.take_socket(Address(*other.getsockname())) is None
    with pytest.raises(
        ConfigurationError, match=f"listens on 127.0.0.1:{one.getsockname()[1]}, which no setting names"
    ):
        passed.require_none_left()
    last = passed.take_socket(Address(*one.getsockname()))
    assert last is not None
    last.close()
    passed.require_none_left()


def test_two_sockets_of_one_address_are_one_too_many(stack: ExitStack) -> None:
    """With ReusePort=yes in two units: the first was dropped, and reset who waited in its queue."""
    one = stack.enter_context(socket.create_server((HERE, 0), reuse_port=True))
    other = stack.enter_context(socket.create_server(one.getsockname(), reuse_port=True))
    with pytest.raises(ConfigurationError, match=f"passed two sockets that listen on {HERE}:{one.getsockname()[1]}"):
        PassedSockets.of(environment(2), first=passed_on(stack, one, other))


@pytest.mark.parametrize("environ", [{}, environment(2, process=1), environment("")])
def test_what_is_passed_to_nobody_or_to_another_process_is_left_alone(environ: dict[str, str]) -> None:
    PassedSockets.of(environ).require_none_left()
    assert environ == {}  # those that it starts are told nothing of it


@pytest.mark.parametrize("count", ["many", "-1", "9" * 5000, "²"])
def test_a_number_that_is_none_is_named(count: str) -> None:
    with pytest.raises(ConfigurationError, match="LISTEN_FDS: expected how many sockets"):
        PassedSockets.of(environment(count))


@pytest.mark.parametrize("kind", ["unix", "datagram", "connected", "nothing"])
def test_what_does_not_listen_for_tcp_is_named(stack: ExitStack, kind: str) -> None:
    if kind == "nothing":
        first = 900
    else:
        family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
        made = socket.socket(family, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
        first = passed_on(stack, stack.enter_context(made))
    with pytest.raises(ConfigurationError, match=f"descriptor {first}, which is no TCP socket that listens"):
        PassedSockets.of(environment(1), first=first)


def activated(folder: Path, *listens: int, kafka: int, http: int) -> subprocess.Popen[str]:
    (folder / "proxy.toml").write_text(CONFIG.format(kafka=kafka, http=http, broker=1))
    (folder / "quotas.toml").write_text("")
    options = [f"--listen={HERE}:{port}" for port in listens]
    command = ["systemd-socket-activate", *options, throttle_sidecar_script(), "run", "--config", "proxy.toml"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_listening(process: subprocess.Popen[str], sockets: int) -> None:
    """To try a connection would start it."""
    assert process.stdout is not None
    for _ in range(sockets):
        line = process.stdout.readline()
        assert line.startswith("Listening on "), line


def test_who_dials_before_it_runs_is_served_once_it_does(tmp_path: Path) -> None:
    with held_ports(2) as (kafka, http), activated(tmp_path, kafka, http, kafka=kafka, http=http) as process:
        try:
            wait_listening(process, 2)
            with urllib.request.urlopen(f"http://{HERE}:{http}/healthz", timeout=20) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
        assert process.returncode == 0, said
    assert f"127.0.0.1:{kafka}" in said


def test_a_socket_that_no_setting_names_ends_the_start(tmp_path: Path) -> None:
    held = held_ports(3)
    with held as (kafka, http, stray), activated(tmp_path, kafka, stray, kafka=kafka, http=http) as process:
        wait_listening(process, 2)
        with socket.create_connection((HERE, stray), timeout=20):
            said, _ = process.communicate(timeout=20)
        assert process.returncode == 1
    assert f"systemd passed a socket that listens on 127.0.0.1:{stray}, which no setting names" in said
    assert "Traceback" not in said
