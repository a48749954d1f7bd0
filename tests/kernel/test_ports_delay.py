"""Delay on links: made where the kernel has netem, refused before anything is made where it has not."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.fabric import netem, netns, observe
from testbed.lab import lifecycle, state
from testbed.topology.errors import MissingError
from testbed.topology.labfile import load_lab
from tests.kernel.port_bench import PortBench

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

DELAY_MS = 20


def test_a_lab_with_delay_is_refused_where_the_kernel_cannot(lab_file: Callable[[str, str], Path]) -> None:
    if not netem.trouble():
        pytest.skip("this kernel has netem")
    path = lab_file("tiny", "pt-delay")
    path.write_text(path.read_text() + f"delay:\n  fabric: {DELAY_MS} ms\n")
    with pytest.raises(MissingError) as refused:
        lifecycle.up(load_lab(path), path)
    assert refused.value.exit_code == 3
    assert (
        str(refused.value)
        == f"netem is missing: this kernel has none (the lab file asks for delay on its links); {netem.FIX}"
    )
    assert not [name for name in netns.names() if name.startswith("pt-delay.")]
    assert state.load("pt-delay") is None


def test_packets_take_the_delay_of_each_link_and_a_jam_is_still_seen() -> None:
    if why := netem.trouble():
        pytest.skip(f"netem: {why}")
    rates = {"host": "20 Mb/s", "fabric": "20 Mb/s"}
    with PortBench(hosts=1, t0_groups=2, rates=rates, delay={"fabric": f"{DELAY_MS} ms"}) as bench:
        assert observe.differences(bench.plan, bench.kernel, bench.port_map) == []
        receiver, sender = bench.receiver(1), bench.sender(0)
        start_s = time.monotonic()
        sender.send(bench.data(0, 1, 1, payload=b""))
        assert select.select([receiver], [], [], 5)[0]
        assert 2 * DELAY_MS <= (time.monotonic() - start_s) * 1e3 < 4 * DELAY_MS
        assert bench.counters("p0t0-0", "p0t1-0").depth_bytes == 0
