from __future__ import annotations

import os
import signal
import time

from operating.terminal import held_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_wait_nobody_interrupts_takes_its_time() -> None:
    with held_interrupts() as interrupted:
        began = time.monotonic()
        assert not interrupted(0.02)
        assert time.monotonic() - began >= 0.02


def test_what_was_pressed_before_the_wait_ends_it() -> None:
    with held_interrupts() as interrupted:
        press_ctrl_c()
        press_ctrl_c()
        assert interrupted(60.0)
        assert interrupted(60.0)


def test_afterwards_it_does_what_it_did_before() -> None:
    """Whatever that was: who is started in the background by a shell has it ignored."""
    found = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            with held_interrupts() as interrupted:
                press_ctrl_c()
                assert interrupted(60.0)
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, found)
