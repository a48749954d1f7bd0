"""Where the columns of a comparison run: in virtual time on all cores, or one after the other on kernel labs.

On the kernel each column has a lab of its own, which is brought up for it and taken down again.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from testbed.chaos.interrupt import Interruptible
from testbed.chaos.runner import RunResult, run_scenario
from testbed.chaos.scenario import Scenario
from testbed.chaos.virtual import simulate
from testbed.chaos.workers import Workers
from testbed.compare import figures
from testbed.compare.columns import Entry, Variant
from testbed.compare.figures import Observed
from testbed.lab import lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.topology import library
from testbed.topology.labspec import LabSpec

_SCRATCH_PREFIX = "mrclab-compare-"

One = tuple[Variant, int]  # a setting with a seed
Runs = Callable[[Sequence[One]], Iterator[tuple[One, Observed]]]


class Stage(ABC):
    """See `lab_of`. `interrupted` says by what, once somebody wishes the end: then nothing more is begun."""

    @property
    @abstractmethod
    def interrupted(self) -> str:
        """Empty until then."""

    @abstractmethod
    def lab_of(self, entry: Entry) -> AbstractContextManager[Runs]:
        """The lab of a column, while it is needed: runs settings with seeds, and gives each result when it is there."""


class InVirtualTime(Stage):
    """`real_rates`: at the rates that the labs stand for."""

    def __init__(self, workers: Workers, real_rates: bool) -> None:
        self._workers = workers
        self._real_rates = real_rates

    @property
    def interrupted(self) -> str:
        return self._workers.interrupted

    @contextmanager
    def lab_of(self, entry: Entry) -> Iterator[Runs]:
        yield partial(self._workers.each, partial(_simulated, self._real_rates, entry.scenarios, entry.spec))


class OnTheKernel(Stage):
    """On labs that are made as a scenario's lab file says, but for what makes the column."""

    def __init__(self, scenario: Scenario, wish: Interruptible) -> None:
        self._source = library.find("topologies", scenario.lab)
        self._wish = wish  # of a signal between two runs; a run looks for its own
        self._cut_short = ""

    @property
    def interrupted(self) -> str:
        return self._cut_short or self._wish.words

    @contextmanager
    def lab_of(self, entry: Entry) -> Iterator[Runs]:
        lifecycle.up(entry.spec, self._source)  # or it is there, since a comparison was killed
        try:
            with open_lab(entry.spec.name) as lab:
                yield partial(self._runs, lab, entry)
        finally:
            lifecycle.down(entry.spec.name)

    def _runs(self, lab: RunningLab, entry: Entry, wanted: Sequence[One]) -> Iterator[tuple[One, Observed]]:
        for variant, seed in wanted:
            if self.interrupted:
                return
            with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
                result = run_scenario(entry.scenarios[variant], lab, Path(scratch), seed=seed, report=False)
            observed = _observed(result)
            self._cut_short = observed.interrupted
            yield (variant, seed), observed


@contextmanager
def stage(scenario: Scenario, virtual: bool, real_rates: bool) -> Iterator[Stage]:
    """The one that is asked for."""
    if virtual:
        with Workers() as workers:
            yield InVirtualTime(workers, real_rates)
    else:
        with Interruptible() as wish:
            yield OnTheKernel(scenario, wish)


def _simulated(real_rates: bool, scenarios: dict[Variant, Scenario], spec: LabSpec, one: One) -> Observed:
    variant, seed = one
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
        made = simulate(scenarios[variant], spec, Path(scratch), seed=seed, real_rates=real_rates, report=False)
    return _observed(made)


def _observed(result: RunResult) -> Observed:
    return figures.observe(result.run, result.summary)
