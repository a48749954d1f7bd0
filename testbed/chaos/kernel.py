"""The kernel lab as a stage: real agents, real faults, and the real clock, which a signal interrupts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from testbed.chaos.hands import LabHands
from testbed.chaos.injector import Injector
from testbed.chaos.interrupt import Interruptible
from testbed.chaos.journal import Journal
from testbed.fabric.portmap import PortMap, Reader
from testbed.lab.agents import AgentGroup
from testbed.lab.port_status import named_ports
from testbed.lab.running import RunningLab
from testbed.measure import machine
from testbed.measure.machine import Reading
from testbed.measure.ports import Counts, PortCount
from testbed.topology.clos import Port

_NICE = -15


class KernelStage:
    """See `stage.Stage`."""

    speedup = 1.0
    virtual = False
    lead_ns = 40_000_000

    def __init__(self, lab: RunningLab, agents: AgentGroup, interrupt: Interruptible) -> None:
        self.clos = lab.clos
        self.agents = agents
        self.journal = Journal(lab.dir)
        self.injector = Injector(lab.clos, self.journal, LabHands(lab), wait=interrupt.wait_until)
        self._interrupt = interrupt
        self._lab = lab
        self._ports = list(named_ports(lab.clos))
        _ = lab.plan, lab.port_map, lab.ports, lab.tables  # made now, and not when the first fault is due

    def port_counts(self) -> Counts:
        """What the ports counted since the lab is up, and their longest queues since the last call."""
        return {name: _count(self._lab.port_map, port) for name, port in self._ports}

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wait_until(self, t_ns: int) -> None:
        """Sleep, at most until a signal comes."""
        self._interrupt.wait_until(t_ns)

    def wish_to_end(self) -> str:
        """See Stage."""
        return self._interrupt.signal_name

    def machine(self) -> Reading:
        """CPU and drops, of whoever caused them."""
        return machine.read()


def _count(port_map: PortMap, port: Port) -> PortCount:
    counters = port_map.counters(port.ifindex)
    return PortCount(
        packets=counters.packets,
        bytes=counters.bytes,
        marked=counters.marked,
        trimmed=counters.trimmed,
        dropped_queue=counters.dropped_queue,
        dropped_control=counters.dropped_control,
        dropped_loss=counters.dropped_loss,
        dropped_black_hole=counters.dropped_black_hole,
        queue_max_bytes=port_map.queue_max(port.ifindex, Reader.SAMPLES),
    )


@contextmanager
def _first_in_line() -> Iterator[None]:
    """The runner sleeps nearly always; when it wakes up to act, it goes before the agents that keep the CPUs busy."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def on_kernel(lab: RunningLab) -> Iterator[KernelStage]:
    """The stage of a lab that is up. For the main thread, since it takes SIGINT, SIGTERM and SIGHUP."""
    with Interruptible() as interrupt, lab.agents() as agents, _first_in_line():
        yield KernelStage(lab, agents, interrupt)
