"""Virtual time as a stage: the same scenario, agents and verdict as on the kernel lab, without root, kernel or clock.

A run is a function of the lab file, the scenario and its seed, to the last byte of its results. What a machine does
to a run does not exist here: nobody is late, no CPU is busy, no socket drops. Nor do ordinary tools, processes that
could be killed, and the kernel's own ways: a port's carrier is seen at the moment it goes.
"""

from __future__ import annotations

from pathlib import Path

from testbed.chaos import check
from testbed.chaos.injector import Injector
from testbed.chaos.interrupt import Interruptible
from testbed.chaos.journal import MemoryJournal
from testbed.chaos.runner import Live, RunResult, play
from testbed.chaos.scenario import Scenario
from testbed.chaos.virtual_hands import SimHands
from testbed.measure.machine import Reading
from testbed.sim.lab import SimLab
from testbed.topology import clos
from testbed.topology.labspec import LabSpec
from testbed.topology.timescale import at_real_rates, faster


class VirtualStage:
    """See `stage.Stage`. A signal is noticed between two collections."""

    virtual = True
    lead_ns = 0

    def __init__(self, lab: SimLab, interrupt: Interruptible, speedup: float) -> None:
        self.clos = lab.clos
        self.agents = lab.agents
        self.speedup = speedup
        self.journal = MemoryJournal()
        self.injector = Injector(lab.clos, self.journal, SimHands(lab), self.now_ns)
        self._events = lab.events
        self._interrupt = interrupt

    def now_ns(self) -> int:
        """Virtual time."""
        return self._events.now

    def wait_until(self, t_ns: int) -> None:
        """Let virtual time pass."""
        self._events.run_to(t_ns)

    def wish_to_end(self) -> str:
        """See Stage."""
        return self._interrupt.signal_name

    def machine(self) -> Reading:
        """No machine takes part."""
        return Reading(0, 0, 0)


def simulate(
    scenario: Scenario,
    spec: LabSpec,
    out_dir: Path,
    *,
    seed: int | None = None,
    real_rates: bool = False,
    live: Live | None = None,
    report: bool = True,
) -> RunResult:
    """Run a scenario on a lab in virtual time, and write the results as a run on the kernel lab does.

    `seed` replaces the scenario's, and everything random follows from it. With `real_rates` links have the rates that
    the lab stands for, and every time in scenario and lab is divided by the lab's time dilation. Raises InputError
    before anything starts when the scenario does not fit the lab. For the main thread, since it takes signals.
    """
    check.check(scenario, clos.build(spec))
    seed = scenario.seed if seed is None else seed
    speedup = spec.time_dilation if real_rates else 1.0
    if real_rates:
        spec, scenario = at_real_rates(spec), faster(scenario, speedup)
    with Interruptible() as interrupt:
        stage = VirtualStage(SimLab(spec, seed=seed, speedup=speedup), interrupt, speedup)
        return play(scenario, stage, out_dir, seed=seed, live=live, report=report)
