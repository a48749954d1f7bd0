"""Clustermapper on a lab that is up: what is broken by hand is found where it is, and nothing else is accused.

Faults are put in through the journal, as `mrclab fault` does. Times are counted in probe intervals; the map is gathered
all the while, and whatever it accuses has to be part of what was broken. A lab is not told what was broken: it probes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.clustermapper.evidence import probes_needed, probes_needed_apart
from testbed.chaos import by_hand
from testbed.health.gather import Map, Mapper
from testbed.lab import lifecycle
from testbed.lab.agents import AgentGroup
from testbed.lab.running import RunningLab, open_lab
from testbed.topology.clos import Clos
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(500)]

INTERVAL_NS = 40_000_000
SLACK_INTERVALS = 3  # between two looks, on a machine with other work
LOSS = 0.05
SURE = 0.9

LAB = """
name: {name}
planes: {planes}
t0_groups: 2
hosts_per_t0: {hosts}
t1s_per_plane: {t1s}
rates: {{host: 20 Mb/s, fabric: 20 Mb/s}}
health: {{policy: observe, interval: 40 ms}}
"""


@dataclass
class Probed:
    """A lab that is probed."""

    lab: RunningLab
    agents: AgentGroup
    mapper: Mapper

    def look(self) -> Map:
        """One look; the lab's machine may be too busy for an agent to answer in time."""
        return self.mapper.look()

    def begin_anew(self) -> None:
        """Forget all probes, so that no case sees another's, and wait until every path is known to be good."""
        self.agents.call("health-set", policy="off")
        self.agents.call("health-set", policy="observe", interval_ns=INTERVAL_NS)
        states = self.until(lambda found: {one.state for one in found.findings.values()} == {"ok"}, 60)
        assert states is not None, self.look().accused

    def until(
        self, wanted: Callable[[Map], bool], intervals: float, allowed: set[str] | None = None
    ) -> tuple[float, Map] | None:
        """(intervals that passed, map) as soon as the map is as wanted; None when it is not in time.

        At each look, nothing that is not `allowed` may be accused.
        """
        start_ns = time.monotonic_ns()
        while True:
            found = self.look()
            passed = (time.monotonic_ns() - start_ns) / INTERVAL_NS
            if allowed is not None:
                assert set(found.accused) <= allowed, {name: found.findings[name] for name in found.accused}
            if wanted(found):
                return passed, found
            if passed > intervals:
                return None
            time.sleep(INTERVAL_NS / 4e9)


def probed(tmp_path_factory: pytest.TempPathFactory, **shape: object) -> Iterator[Probed]:
    path = tmp_path_factory.mktemp("health") / "lab.yaml"
    path.write_text(LAB.format(**shape))
    lifecycle.up(load_lab(path), path)
    try:
        with open_lab(str(shape["name"])) as lab, lab.agents() as agents:
            yield Probed(lab, agents, Mapper(agents, lab.spec))
    finally:
        with suppress(Exception):
            by_hand.clear(open_lab(str(shape["name"])))
        lifecycle.down(str(shape["name"]))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probed]:
    yield from probed(tmp_path_factory, name="cm-small", planes=2, hosts=2, t1s=2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probed]:
    """As large as `demo`."""
    yield from probed(tmp_path_factory, name="cm-whole", planes=4, hosts=4, t1s=4)


def elements(clos: Clos) -> list[str]:
    """The names of all links and switches."""
    return [*clos.links, *(switch.name for switch in clos.switches)]


def at_fault(clos: Clos, element: str) -> set[str]:
    """What may be accused before all probes have spoken: an element, and of a switch the links that fail with it."""
    links = {link.name for _, link in clos.ports(element)} if element in clos.nodes else set()
    return {element} | links


# kind of case -> (fault, its options, ends, which state it is found in)
CASES = {
    "down": ("link-down", {}, None, "down"),
    "black hole": ("black-hole", {}, None, "down"),
    "5 % one way": ("loss", {"loss": LOSS}, "far", "lossy"),
    "5 % both ways": ("loss", {"loss": LOSS}, "both", "lossy"),
}


def within_intervals(clos: Clos, element: str, case: str) -> float:
    """How long finding a fault may take: ten intervals, or as many as there are probes that the test needs."""
    if CASES[case][3] == "down":
        return 10 + SLACK_INTERVALS
    crossings = 2 if case.endswith("both ways") else 1
    loss = 1 - (1 - LOSS) ** crossings
    behind_t0 = element.count("t1-")  # a T1, or a link to one
    return (probes_needed_apart if behind_t0 else probes_needed)(loss) + 10


def put(lab: RunningLab, element: str, case: str) -> None:
    """Break an element in one way."""
    kind, options, end, _ = CASES[case]
    target = f"switch {element}" if element in lab.clos.nodes else element
    by_hand.put(lab, kind, target, end, options)  # type: ignore[arg-type]


def find(one: Probed, element: str, case: str, patience: float = 1.0) -> float:
    """Break it, find it, mend it; the intervals that finding took, at most `patience` times what it may take."""
    one.begin_anew()
    allowed = at_fault(one.lab.clos, element)
    limit = within_intervals(one.lab.clos, element, case)
    put(one.lab, element, case)
    try:
        state = CASES[case][3]
        found = one.until(
            lambda seen: seen.accused == {element: state} and seen.findings[element].confidence > SURE,
            patience * limit,
            allowed,
        )
        assert found is not None, (element, case, limit, one.look().accused)
    finally:
        by_hand.clear(one.lab)
    return found[0]


@pytest.mark.parametrize(
    ("element", "case"),
    [
        ("h1:p0t0-0", "down"),
        ("p0t0-1:p0t1-0", "black hole"),
        ("p1t0-0", "black hole"),
        ("p1t1-1", "down"),
        ("h2:p1t0-1", "5 % both ways"),
        ("p0t0-0:p0t1-1", "5 % one way"),
    ],
)
def test_what_is_broken_is_found_with_no_workload_running(small: Probed, element: str, case: str) -> None:
    find(small, element, case)


def test_two_faults_at_once_are_both_found(small: Probed) -> None:
    small.begin_anew()
    both = {"h1:p0t0-0": "down", "p1t1-0": "down"}
    allowed = {part for element in both for part in at_fault(small.lab.clos, element)}
    for element in both:
        put(small.lab, element, "black hole")
    try:
        assert small.until(lambda seen: seen.accused == both, 10 + 2 * SLACK_INTERVALS, allowed) is not None
    finally:
        by_hand.clear(small.lab)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plane", range(4))
@pytest.mark.parametrize("case", CASES)
def test_each_link_and_switch_of_demo(whole: Probed, case: str, plane: int) -> None:
    """All are found, and nothing else is accused; on a busy machine, few may take longer than they should."""
    clos = whole.lab.clos
    mine = [element for element in elements(clos) if f"p{plane}t" in element]
    took = {element: find(whole, element, case, patience=4) for element in mine}
    late = {name: spent for name, spent in took.items() if spent > within_intervals(clos, name, case)}
    spent = sorted(took.values())
    told = f"{case}, plane {plane}: {len(spent)} elements, intervals: median {spent[len(spent) // 2]:.1f}"
    sys.stdout.write(f"{told}, most {spent[-1]:.1f}; late: {late}\n")
    assert len(late) <= 0.1 * len(took), late  # each may need more probes once in a hundred, a switch has many links


FULL_LOAD = """
lab: {lab}
duration: {seconds} s
workloads: [{{kind: write_bw, pairs: across, message: 32 KB, load: full}}]
expect: {{bytes_wrong: 0, qp_errors: 0}}
"""


def no_alarm_under_full_load(one: Probed, seconds: int, tmp_path: Path) -> dict[str, float]:
    """All hosts send as fast as they can, and nothing is accused; what the probes met meanwhile."""
    one.begin_anew()
    scenario = tmp_path / "full.yaml"
    scenario.write_text(FULL_LOAD.format(lab=one.lab.source_file, seconds=seconds))
    before = {host: answer["totals"] for host, answer in one.agents.call("collect", limit=0).items()}
    command = [sys.executable, "-m", "testbed.cli", "run", str(scenario), "--lab", one.lab.name, "--out", str(tmp_path)]
    alarms: list[str] = []
    looks = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None:
            found = one.look()
            looks += 1
            alarms += [f"{name}: {found.findings[name]}" for name in found.accused]
            time.sleep(0.2)
        assert run.returncode in (0, 4), run.stderr.read() if run.stderr else ""  # 4: a busy machine
    paths = [path for report in one.look().reports.values() for path in report.paths]
    dropped = sum(
        answer["totals"]["socket_drops"] - before[host]["socket_drops"]
        for host, answer in one.agents.call("collect", limit=0).items()
    )
    assert not alarms, alarms[:3]
    seen = {
        "looks": looks,
        "probes": sum(path.sent for path in paths),
        "lost": sum(path.lost for path in paths),
        "late": sum(path.late for path in paths),
        "marked": sum(path.marked for path in paths),
        "socket drops": dropped,
        "slowest p99 ms": max(path.rtt_p99_ns for path in paths) / 1e6,
    }
    sys.stdout.write(f"{seen}\n")
    return seen


def test_full_load_raises_no_alarm(small: Probed, tmp_path: Path) -> None:
    seen = no_alarm_under_full_load(small, 8, tmp_path)
    assert seen["probes"] > 5 * 32 * 25 and seen["looks"] > 20
    assert seen["lost"] < 0.01 * seen["probes"]


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("half", ["first five minutes", "second five minutes"])
def test_ten_minutes_of_full_load_raise_no_alarm(whole: Probed, half: str, tmp_path: Path) -> None:
    seen = no_alarm_under_full_load(whole, 300, tmp_path)
    assert seen["lost"] < 0.001 * seen["probes"]
