"""Rooms: joined, separate, and gone afterwards. What is done in them: tests/deploy and tests/system."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from lab.errors import LabError
from lab.host.namespaces import SIDECAR_UID, open_rooms

SERVE = "import socket; s = socket.create_server(({!r}, 9092)); print(flush=True); s.accept()"
DIAL = "import socket; print(socket.socket().connect_ex(({!r}, 9092)))"

SEND = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(1000), ({!r}, 9))"


def links() -> list[str]:
    """Of this process: tests that run beside it have rooms of their own, which come and go."""
    said = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    return [line for line in said.splitlines() if line.startswith(f"kl{os.getpid()}x")]


def test_each_has_a_loopback_of_its_own_and_reaches_the_others() -> None:
    before = links()
    with open_rooms((101, 102)) as rooms:
        there = rooms.addresses.ingress(101)
        with subprocess.Popen(
            [*rooms.within(101), sys.executable, "-c", SERVE.format(there)], stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            server.stdout.readline()
            assert rooms.run(102, sys.executable, "-c", DIAL.format("127.0.0.1")) == "111\n"
            assert rooms.run(102, sys.executable, "-c", DIAL.format(there)) == "0\n"
        user = subprocess.run([*rooms.within_as_sidecar(101), "id", "-u"], capture_output=True, text=True, check=True)
        assert user.stdout == f"{SIDECAR_UID}\n"
        assert rooms.addresses.subnet in rooms.run(102, "ip", "addr")
        assert f"{rooms.address6(102)}/64" in rooms.run(102, "ip", "addr")
    assert links() == before


def test_a_command_that_fails_is_an_error_with_what_it_said() -> None:
    with open_rooms((7,)) as rooms, pytest.raises(LabError, match=r"ls /nowhere: ls: cannot access"):
        rooms.run(7, "ls", "/nowhere")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError, match=r"`iptables` \(Debian: apt-get install iptables\)"):
        open_rooms((1,)).__enter__()


def test_what_a_room_has_carried_is_counted() -> None:
    with open_rooms((101, 102)) as rooms:
        received, sent = rooms.carried(102)[0], rooms.carried(101)[1]
        rooms.run(101, sys.executable, "-c", SEND.format(rooms.addresses.direct(102)))
        # The datagram leaves once the room's neighbour is known, which a busy machine may take a while for.
        deadline = time.monotonic() + 10
        while rooms.carried(102)[0] <= received + 1000 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert received + 1000 < rooms.carried(102)[0] < received + 3000
        assert sent + 1000 < rooms.carried(101)[1] < sent + 3000
    with pytest.raises(LabError, match="the room of broker 102 is not open"):
        rooms.carried(102)
