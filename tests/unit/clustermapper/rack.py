"""A small fabric of probers whose probes come back, or not, as a test says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from agents.clustermapper.element import Element, Finding
from agents.clustermapper.localise import Shape, accused, localise
from agents.clustermapper.prober import Prober
from agents.clustermapper.settings import Settings
from agents.wire import address
from agents.wire.address import Kind
from agents.wire.packet import parse

INTERVAL_NS = 20_000_000
RTT_NS = 300_000
SHAPE = Shape(planes=2, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4)

Losses = dict[Element, float]


def crossed(shape: Shape, host: int, outer: bytes) -> list[Element]:
    """The elements that a self-probe crosses, by its outer address; each link and T0 twice."""
    hops = [address.split_usid(usid) for usid in address.address_usids(outer)]
    plane, kinds, t0 = hops[0][0], [kind for _, kind, _ in hops], host // shape.hosts_per_t0
    assert hops[-1] == (plane, Kind.DOWNLINK, host % shape.hosts_per_t0)
    way = [Element("nic-t0", plane, host)] * 2 + [Element("t0", plane, t0)]
    if kinds == [Kind.T0, Kind.T1, Kind.T0, Kind.DOWNLINK]:
        assert hops[0] == hops[2] == (plane, Kind.T0, t0)
        t1 = hops[1][2]
        way += [Element("t0-t1", plane, t0, t1)] * 2 + [Element("t1", plane, t1), Element("t0", plane, t0)]
    else:
        assert kinds == [Kind.T0, Kind.DOWNLINK]
    return way


class Fabric:
    """All hosts' probers. `losses`: what an element loses of each crossing; `one_way`: only on the first of two."""

    def __init__(self, rng: Random, shape: Shape = SHAPE, **settings: object) -> None:
        self.shape = shape
        self.now = 0
        self.losses: Losses = {}
        self.one_way = False
        self.rtt_ns: Callable[[int, int], int] = lambda host, plane: RTT_NS
        self.silent: set[int] = set()  # hosts that do not report
        self.sent: list[tuple[int, int, int, bytes]] = []  # when, host, plane, outer address
        self._rng = rng
        self._coming: list[tuple[int, int, int, bytes]] = []
        self.hosts = [
            Prober(
                host,
                planes=shape.planes,
                hosts_per_t0=shape.hosts_per_t0,
                t1s_per_plane=shape.t1s_per_plane,
            )
            for host in range(shape.t0_groups * shape.hosts_per_t0)
        ]
        for prober in self.hosts:
            prober.configure(Settings(**{"interval_ns": INTERVAL_NS, "policy": "observe", **settings}), 0)

    def run(self, intervals: float, each: Callable[[], None] | None = None) -> None:
        """Let time pass; `each` is called about once an interval."""
        end, looked = self.now + round(intervals * INTERVAL_NS), self.now
        while True:
            due = min(
                [prober.next_timer() or end + 1 for prober in self.hosts] + [at for at, *_ in self._coming],
                default=end + 1,
            )
            if due > end:
                break
            self.now = due
            for at, host, plane, data in [one for one in self._coming if one[0] <= due]:
                self._coming.remove((at, host, plane, data))
                assert self.hosts[host].receive(plane, parse(data), due)
            for host, prober in enumerate(self.hosts):
                prober.handle_timer(due)
                self._send(host, prober)
            if each is not None and self.now - looked >= INTERVAL_NS:
                looked = self.now
                each()
        self.now = end

    def _send(self, host: int, prober: Prober) -> None:
        probes = prober.probes()
        while probes:
            plane, buffers = probes.popleft()
            data = b"".join(buffers)
            self.sent.append((self.now, host, plane, data[24:40]))
            way = crossed(self.shape, host, data[24:40])
            if not any(self._loses(element, way.index(element) == at) for at, element in enumerate(way)):
                self._coming.append((self.now + self.rtt_ns(host, plane), host, plane, data))

    def _loses(self, element: Element, first: bool) -> bool:
        loss = self.losses.get(element, 0.0)
        return bool(loss) and (first or not self.one_way) and self._rng.random() < loss

    def findings(self) -> list[Finding]:
        """What all reports together say."""
        reports = {host: prober.report(self.now) for host, prober in enumerate(self.hosts) if host not in self.silent}
        return localise(self.shape, reports)

    def accused(self) -> dict[Element, str]:
        """The elements that are said to fail, with how."""
        return {finding.element: finding.state for finding in accused(self.findings())}
