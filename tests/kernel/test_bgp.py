"""A lab whose switches speak BGP: what they learn, what they do about links that die, and that nothing is left.

h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in one plane
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.wire import ev as entropy
from testbed.chaos import by_hand
from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric import netns, observe
from testbed.fabric.routing import bgp
from testbed.lab import frr, lifecycle, state
from testbed.lab.repair import repair
from testbed.lab.running import RunningLab, open_lab
from testbed.lab.verify_hashed import HashedProof, prove_hashed
from testbed.topology.errors import MissingError
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(150)]

NAME = "ba-bgp-test"
LINK = "p0t0-0:p0t1-1"
DAEMONS_PER_SWITCH = 3
EVS = [entropy.make(0, 0, number) for number in range(24)]

TEXT = """\
planes: 1
t0_groups: 2
hosts_per_t0: 2
t1s_per_plane: 2
rates: {host: 40 Mb/s, fabric: 40 Mb/s}
stands_for: {host: 400 Gb/s, fabric: 400 Gb/s}
routing: bgp
"""

TRAFFIC = """\
lab: {lab}
duration: 3 s
warmup: 500 ms
transport: {{kind: roce, retry_count: 7, timeout_exponent: 6}}
workloads:
  - {{kind: write_bw, pairs: across, message: 32 KB, load: 20%}}
faults:
  - {{kind: black-hole, target: "p0t0-0:p0t1-1", at: 1 s}}
expect: {{bytes_wrong: 0}}
"""


def up(folder: Path, name: str, more: str = "") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(TEXT + more)
    lifecycle.up(load_lab(path), path)
    return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    try:
        up(tmp_path_factory.mktemp("labs"), NAME)
        with open_lab(NAME) as running:
            yield running
    finally:
        lifecycle.down(NAME)


@pytest.fixture(autouse=True)
def as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test on the lab its kernel state is as before, and BGP has converged again."""
    if "lab" not in request.fixturenames:
        yield
        return
    lab = request.getfixturevalue("lab")
    before = observe.snapshot(lab.kernel, lab.clos.nodes, lab.port_map)
    yield
    assert by_hand.active(lab) == []
    assert observe.snapshot(lab.kernel, lab.clos.nodes, lab.port_map) == before
    frr.wait_until_converged(lab.clos, lab.kernel, lambda done, of: None)


def eventually(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def probes(lab: RunningLab) -> list[HashedProof]:
    with lab.agent("h0") as agent:
        return prove_hashed(lab.clos, lab.port_map, lab.ev_uses, agent, ("h0", "h2"), EVS)


def answered(lab: RunningLab) -> int:
    with lab.agent("h0") as agent:
        results = agent.call("probe", peer=2, evs=EVS, timeout_ns=100_000_000)["results"]
    return sum(one["answered"] for one in results)


def all_answered(lab: RunningLab) -> bool:
    return answered(lab) == len(EVS)


def daemons_of(lab: str) -> list[int]:
    """Processes of FRR's user whose command names the lab's folder: not by the lab's own record."""
    user, found = pwd.getpwnam(frr.USER).pw_uid, []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{entry}").st_uid == user:
                words = Path(f"/proc/{entry}/cmdline").read_bytes()
                if f"/{lab}/".encode() in words:
                    found.append(int(entry))
        except OSError:
            continue
    return found


def test_every_switch_has_its_daemons_and_has_learned_every_path(lab: RunningLab) -> None:
    recorded = state.require_up(NAME).routers
    assert set(recorded) == {switch.name for switch in lab.clos.switches}
    pids = [pid for daemons in recorded.values() for pid in daemons.values()]
    assert sorted(pids) == sorted(daemons_of(NAME))
    assert len(pids) == DAEMONS_PER_SWITCH * len(lab.clos.switches)
    for switch in lab.clos.switches:
        assert observe.learned(lab.kernel, switch.name) == bgp.learned(lab.clos, switch)
    assert lifecycle.status(NAME).healthy
    assert {proof.nodes[1] for proof in probes(lab)} == {"p0t1-0", "p0t1-1"}


def test_a_silent_death_is_seen_by_bfd_and_taken_out_at_both_ends(lab: RunningLab) -> None:
    assert all_answered(lab)
    fault = by_hand.put(lab, "black-hole", LINK)
    try:
        assert not all_answered(lab)
        assert eventually(lambda: all_answered(lab))
        assert all(proof.nodes == ["p0t0-0", "p0t1-0", "p0t0-1"] for proof in probes(lab))
        assert not lifecycle.status(NAME).healthy
    finally:
        by_hand.clear(lab, fault.number)


@pytest.mark.parametrize("end", ["near", "far"])
def test_a_dead_link_is_known_behind_it_too(lab: RunningLab, end: str) -> None:
    fault = by_hand.put(lab, "link-down", LINK, end)  # type: ignore[arg-type]
    try:
        assert eventually(lambda: all_answered(lab))
        assert eventually(lambda: "fd6d:7263::1/128" not in observe.learned(lab.kernel, "p0t1-1"))
    finally:
        by_hand.clear(lab, fault.number)


def test_after_a_reboot_a_t1_carries_its_share_again(lab: RunningLab) -> None:
    fault = by_hand.put(lab, "t1-reboot", "switch p0t1-1")
    try:
        assert eventually(lambda: all_answered(lab))
    finally:
        by_hand.clear(lab, fault.number)
    frr.wait_until_converged(lab.clos, lab.kernel, lambda done, of: None)
    assert eventually(lambda: {proof.nodes[1] for proof in probes(lab)} == {"p0t1-0", "p0t1-1"})


def test_a_host_whose_port_at_the_t0_is_off_is_withdrawn(lab: RunningLab) -> None:
    fault = by_hand.put(lab, "link-down", "h0:p0t0-0", "far")
    try:
        assert eventually(lambda: "fd6d:7263::1/128" not in observe.learned(lab.kernel, "p0t1-0"))
        assert "fd6d:7263::2/128" in observe.learned(lab.kernel, "p0t1-0")
    finally:
        by_hand.clear(lab, fault.number)


def test_a_daemon_that_was_killed_is_told_and_started_again(lab: RunningLab) -> None:
    recorded = state.require_up(NAME).routers["p0t1-0"]
    os.kill(recorded["bgpd"], signal.SIGKILL)
    assert eventually(lambda: lifecycle.status(NAME).routers_dead == ["p0t1-0 bgpd"])
    assert not lifecycle.status(NAME).healthy
    done = repair(NAME)
    assert (done.routers_started, done.left) == (["p0t1-0 bgpd"], [])
    assert lifecycle.status(NAME).healthy
    assert len(daemons_of(NAME)) == DAEMONS_PER_SWITCH * len(lab.clos.switches)


def test_roce_delivers_what_it_can_through_a_silent_death(lab: RunningLab, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(TRAFFIC.format(lab=NAME))
    result = run_scenario(load_scenario(path), lab, tmp_path / "out", report=False)
    flows = result.summary["flows"]
    assert len(flows) == 4
    assert all(flow["bytes_wrong"] == 0 < flow["bytes_delivered"] for flow in flows)


def test_down_leaves_nothing_even_of_a_lab_whose_daemons_were_killed(tmp_path: Path) -> None:
    name = "ba-bgp-gone"
    before = set(os.listdir("/var/tmp"))
    try:
        up(tmp_path, name, "bgp: {bfd: false}\n")
        assert len(daemons_of(name)) == 2 * 4
        for pid in daemons_of(name)[::2]:
            os.kill(pid, signal.SIGKILL)
    finally:
        lifecycle.down(name)
    assert daemons_of(name) == []
    assert not state.directory(name).exists()
    assert not [one for one in netns.names() if one.startswith(f"{name}.")]
    assert set(os.listdir("/var/tmp")) == before


def test_without_frr_nothing_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frr, "DAEMONS", tmp_path)
    with pytest.raises(MissingError, match="apt-get install frr"):
        up(tmp_path, "ba-bgp-none")
    assert state.load("ba-bgp-none") is None
    assert not [one for one in netns.names() if one.startswith("ba-bgp-none.")]


@pytest.mark.full
def test_without_bfd_a_silent_death_lasts_as_long_as_the_hold_time(tmp_path: Path) -> None:
    lasted = {}
    choices = {
        "with": "bgp: {bfd_interval: 100 ms, hold_time: 6 s}\n",
        "without": "bgp: {bfd: false, hold_time: 6 s}\n",
    }
    for bfd, more in choices.items():
        name = f"ba-bgp-{bfd}"
        try:
            up(tmp_path, name, more)
            with open_lab(name) as lab:
                fault = by_hand.put(lab, "black-hole", LINK)
                began = time.monotonic()
                assert eventually(lambda lab=lab: all_answered(lab), 30.0)
                lasted[bfd] = time.monotonic() - began
                by_hand.clear(lab, fault.number)
        finally:
            lifecycle.down(name)
    assert lasted["with"] < 0.5 * lasted["without"]
