"""Connections that wait for somebody who stands still are reset, by the kernel itself; no others are."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from operating.guard.resets import reset


@pytest.mark.parametrize(
    ("listens", "dialled"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")], ids=["4", "6", "4 by 6"]
)
@pytest.mark.parametrize("any_address", [False, True])
def test_who_waits_is_reset_and_who_listens_stays(listens: str, dialled: str, *, any_address: bool) -> None:
    with ExitStack() as stack:
        family = socket.AF_INET6 if ":" in listens else socket.AF_INET
        made = socket.create_server((listens, 0), family=family, dualstack_ipv6=listens == "::")
        listener = stack.enter_context(made)
        port = listener.getsockname()[1]
        waiting = [stack.enter_context(socket.create_connection((dialled, port))) for _ in range(2)]
        stack.enter_context(listener.accept()[0])  # the other is never accepted
        address = None if any_address else dialled
        assert reset([(address, port), (address, port)]) == 2
        for each in waiting:
            with pytest.raises(ConnectionResetError):
                each.recv(1)
        assert reset([(address, port)]) == 0
        stack.enter_context(socket.create_connection((dialled, port)))


def test_what_has_another_address_or_another_port_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as made, listener.accept()[0] as accepted:
            assert reset([("127.0.0.2", port), ("::1", port), (None, made.getsockname()[1] ^ 1)]) == 0
            accepted.sendall(b"x")
            assert made.recv(1) == b"x"


def test_who_may_not_is_told() -> None:
    script = """
import os, socket
from operating.guard.resets import reset
with socket.create_server(("127.0.0.1", 0)) as listener:
    made = socket.create_connection(listener.getsockname())
    os.setuid(65534)
    try:
        reset([(None, listener.getsockname()[1])])
    except OSError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[Errno 1] sock_diag: Operation not permitted\n"
