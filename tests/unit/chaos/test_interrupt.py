"""Signals end a wait at once, are remembered, and go back to whom they belonged to."""

import os
import signal
import threading
import time

import pytest

from testbed.chaos.interrupt import Interruptible

FAR_NS = 20_000_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait_and_every_later_one(number: signal.Signals) -> None:
    with Interruptible() as interrupt:
        killer = threading.Timer(0.05, os.kill, (os.getpid(), number))
        killer.start()
        began_ns = time.monotonic_ns()
        interrupt.wait_until(began_ns + FAR_NS)
        interrupt.wait_until(began_ns + FAR_NS)
        assert time.monotonic_ns() - began_ns < FAR_NS / 2
        killer.join()
    assert interrupt.signal_name == number.name


def test_the_first_signal_is_the_one_that_counts() -> None:
    with Interruptible() as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        interrupt.wait_until(time.monotonic_ns() + FAR_NS)
    assert interrupt.signal_name == "SIGTERM"


def test_without_a_signal_it_waits_to_the_time() -> None:
    with Interruptible() as interrupt:
        until_ns = time.monotonic_ns() + 20_000_000
        interrupt.wait_until(until_ns)
        assert time.monotonic_ns() >= until_ns
        interrupt.wait_until(until_ns)  # past already
    assert interrupt.signal_name == ""


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruptible():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
