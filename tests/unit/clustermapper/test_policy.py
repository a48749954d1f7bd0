"""What a host does about its own lossy planes."""

from __future__ import annotations

from random import Random

from agents.clustermapper.element import Element
from agents.clustermapper.evidence import probes_needed
from agents.clustermapper.policy import Decision
from agents.clustermapper.settings import Settings
from tests.unit.clustermapper.rack import INTERVAL_NS, Fabric, Shape

SHAPE = Shape(planes=4, t0_groups=1, hosts_per_t0=2, t1s_per_plane=1)
ALL = 0b1111
LINKS = [Element("nic-t0", plane, 0) for plane in range(4)]


class Host:
    """Host 0 of a fabric, and what its policy decided."""

    def __init__(self, rng: Random, needed: list[int] | None = None, **settings: object) -> None:
        self.fabric = Fabric(rng, SHAPE, **{"policy": "act", "hold_intervals": 50, **settings})
        self.prober = self.fabric.hosts[0]
        self.decided: list[Decision] = []
        self.needed = needed or []
        self.usable = ALL

    def run(self, intervals: int) -> None:
        self.fabric.run(intervals, lambda: self.decided.extend(self.prober.decide(self.usable, self.needed, self.now)))

    @property
    def now(self) -> int:
        return self.fabric.now

    def actions(self) -> list[tuple[int, str]]:
        return [(one.plane, one.action) for one in self.decided]


def test_a_lossy_plane_is_denied_and_comes_back_when_it_is_good(rng: Random) -> None:
    host = Host(rng)
    host.fabric.losses = {LINKS[2]: 0.05}
    host.run(2 * probes_needed(0.05))
    assert host.actions()[:1] == [(2, "denied")] and host.prober.denied == 0b0100
    first = host.decided[0]
    assert first.lost > 0.01 * first.probes and "T0 probe" in first.why
    host.fabric.losses = {}
    host.run(500)
    assert host.actions()[-1] == (2, "allowed") and host.prober.denied == 0


def test_a_little_loss_is_no_reason(rng: Random) -> None:
    host = Host(rng, loss_bound=0.2)
    host.fabric.losses = {LINKS[2]: 0.05}
    host.run(600)
    assert host.decided == []


def test_observing_decides_nothing(rng: Random) -> None:
    host = Host(rng, policy="observe")
    host.fabric.losses = {LINKS[2]: 0.2}
    host.run(300)
    assert host.decided == [] and any(path.state == "lossy" for path in host.prober.report(host.now).paths)


def test_the_last_plane_is_kept(rng: Random) -> None:
    host = Host(rng)
    host.fabric.losses = dict.fromkeys(LINKS, 1.0)
    host.run(40)
    assert sorted(action for _, action in host.actions()) == ["denied", "denied", "denied", "kept"]
    assert host.prober.denied.bit_count() == 3


def test_a_plane_that_a_peer_needs_is_kept(rng: Random) -> None:
    host = Host(rng, needed=[ALL, 0b0100])
    host.fabric.losses = {LINKS[2]: 1.0}
    host.run(40)
    assert host.actions() == [(2, "kept")] and host.prober.denied == 0


def test_a_denied_plane_is_given_back_when_a_peer_has_no_other_left(rng: Random) -> None:
    host = Host(rng)
    host.fabric.losses = {LINKS[2]: 1.0}
    host.run(40)
    assert host.actions() == [(2, "denied")]
    host.needed = [0b0100]
    host.run(3)
    assert host.actions()[1] == (2, "allowed") and host.decided[1].why == "no other plane is left"


def test_a_plane_that_fails_again_and_again_is_held_for_longer(rng: Random) -> None:
    host = Host(rng)
    spans: list[int] = []
    for _ in range(4):
        host.fabric.losses = {LINKS[1]: 1.0}
        host.run(30)
        assert host.decided[-1].action == "denied"
        host.fabric.losses = {}
        denied_ns = host.decided[-1].now_ns
        host.run(450)
        assert host.decided[-1].action == "allowed"
        spans.append((host.decided[-1].now_ns - denied_ns) // INTERVAL_NS)
    assert 45 <= spans[0] <= 90 and spans == sorted(spans) and spans[-1] >= 4 * spans[0]


def test_switching_the_policy_off_gives_the_planes_back(rng: Random) -> None:
    host = Host(rng)
    host.fabric.losses = {LINKS[1]: 1.0}
    host.run(30)
    host.prober.configure(Settings(policy="observe"), host.now)
    assert [one.action for one in host.prober.decide(ALL, [], host.now)] == ["allowed"] and not host.prober.denied
