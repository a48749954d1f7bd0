"""From all hosts' reports to the part of the fabric that is at fault: the tables, and the engine over them.

A self-probe crosses each link both ways, so a fault of one way looks like one of both; what can be told apart is which
part of the path it is:

    T0 probes (host > T0 > host) cross the NIC's link and the T0.
    T1 probes (host > T0 > T1 > T0 > host) cross these, the T0-T1 link and the T1.

Each table goes from what was seen to a verdict; the first row that fits counts. A part that is behind a faulty one
is not judged, only what the probes of other hosts say about it counts. What fits two parts accuses neither: both are
suspects until more probes, or other hosts, have told them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from agents.clustermapper.element import BAD, Element, Finding, State
from agents.clustermapper.evidence import odds_apart
from agents.clustermapper.report import HostReport
from agents.clustermapper.settings import DEAD_RUN, ODDS, SCALES
from agents.clustermapper.track import PathReport

Key = TypeVar("Key")

_PENDING_RUN = 2  # so many lost in a row: wait for the rest before others are judged by this path
_ENOUGH_RTTS = 32
_CONFIDENCE = {"unknown": 0.0, "suspect": 0.5}


@dataclass(frozen=True, slots=True)
class Shape:
    """The fabric. A path is slow whose fastest of its newest round trips took longer than `slow_ns`; 0: none is."""

    planes: int
    t0_groups: int
    hosts_per_t0: int
    t1s_per_plane: int
    slow_ns: int = 0

    def rack(self, t0: int) -> range:
        """The hosts of a T0."""
        return range(t0 * self.hosts_per_t0, (t0 + 1) * self.hosts_per_t0)


class _Pair(NamedTuple):
    """A host's T0 path of a plane and one of its T1 paths there (for the NIC's link: the T0 path twice)."""

    host: int
    t0: PathReport
    path: PathReport
    slow_ns: int


class _Row(NamedTuple):
    fits: Callable[[_Pair], bool]
    state: State
    why: str


# A NIC's link, by the T0 probes of its host alone. `unknown` and `suspect` become a verdict with those of other hosts.
NIC_LINK = (
    _Row(lambda p: not p.path.carrier, "down", "the NIC's port has no carrier"),
    _Row(lambda p: p.path.state == "dead", "down", "no T0 probe comes back"),
    _Row(lambda p: p.path.lost_run >= _PENDING_RUN, "unknown", "the latest T0 probes are missing"),
    _Row(lambda p: p.path.state == "lossy", "lossy", "T0 probes are lost"),
    _Row(lambda p: p.path.state == "unknown", "unknown", "too few T0 probes yet"),
    _Row(lambda p: _is_slow(p.path.rtt_min_ns, p), "slow", "even the fastest T0 probes are slow"),
    _Row(lambda p: True, "ok", "T0 probes come back"),
)

# A T0-T1 link, by one host's T1 probes beside its T0 probes.
T0_T1_LINK = (
    _Row(lambda p: not p.t0.carrier or p.t0.state == "dead", "unknown", "behind a NIC's link or T0 that is down"),
    _Row(lambda p: p.t0.lost_run > 0, "unknown", "the latest T0 probes are missing"),
    _Row(lambda p: p.path.state == "dead", "down", "T0 probes come back, T1 probes do not"),
    _Row(lambda p: p.path.lost_run >= _PENDING_RUN, "unknown", "the latest T1 probes are missing"),
    _Row(lambda p: p.path.state == "lossy" and _odds(p) >= ODDS, "lossy", "T1 probes are lost, T0 probes are not"),
    _Row(lambda p: p.path.state == "lossy" and p.t0.state == "lossy", "unknown", "behind a lossy NIC's link or T0"),
    _Row(lambda p: p.path.state == "lossy", "suspect", "T1 probes are lost; T0 probes are too few to tell from where"),
    _Row(lambda p: p.path.state == "unknown", "unknown", "too few T1 probes yet"),
    _Row(lambda p: _is_slow(p.path.rtt_min_ns - p.t0.rtt_min_ns, p), "slow", "even the fastest T1 probes are slow"),
    _Row(lambda p: True, "ok", "T1 probes come back"),
)


class _SwitchRow(NamedTuple):
    """By the states of the links that a switch is judged by: those to hosts for a T0, those to T0s for a T1."""

    fits: Callable[[Sequence[State], Collection[State]], bool]  # states of known links; the different bad ones of these
    switch: State | None  # None: as the links
    links: State | None  # None: as they are
    why: str


# A switch, by its links. `suspect`: its one known link or the switch.
SWITCH = (
    _SwitchRow(lambda known, bad: not known, "unknown", None, "no probe tells"),
    _SwitchRow(lambda known, bad: "ok" in known, "ok", None, "probes over it come back"),
    _SwitchRow(lambda known, bad: not bad, "suspect", None, "its links are suspects"),
    _SwitchRow(lambda known, bad: len(bad) > 1, "suspect", None, "all of its links fail, but not alike"),
    _SwitchRow(lambda known, bad: len(known) > 1, None, "unknown", "all of its links that are known fail alike"),
    _SwitchRow(lambda known, bad: True, "suspect", "suspect", "one of its links fails, and no other is known"),
)


def localise(shape: Shape, reports: Mapping[int, HostReport]) -> list[Finding]:
    """A finding for every element of the fabric, from the reports of those hosts that gave one."""
    findings: list[Finding] = []
    for plane in range(shape.planes):
        paths = {host: {path.t1: path for path in report.of_plane(plane)} for host, report in reports.items()}
        nic = {
            host: _nic_link(shape, plane, host, paths.get(host, {})) for t0 in _t0s(shape) for host in shape.rack(t0)
        }
        fabric = {
            (t0, t1): _t0_t1_link(shape, plane, t0, t1, paths)
            for t0 in _t0s(shape)
            for t1 in range(shape.t1s_per_plane)
        }
        switches: list[Finding] = []
        for t0 in _t0s(shape):
            switches.append(_switch(Element("t0", plane, t0), nic, list(shape.rack(t0))))
            if switches[-1].state in BAD:
                for t1 in range(shape.t1s_per_plane):
                    fabric[t0, t1] = _behind(fabric[t0, t1], "behind a T0 that fails")
        for t1 in range(shape.t1s_per_plane):
            switches.append(_switch(Element("t1", plane, t1), fabric, [(t0, t1) for t0 in _t0s(shape)]))
        findings += [*nic.values(), *fabric.values(), *switches]
    return findings


def accused(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that say of an element that it fails."""
    return [finding for finding in findings if finding.state in BAD]


def _t0s(shape: Shape) -> range:
    return range(shape.t0_groups)


def _nic_link(shape: Shape, plane: int, host: int, paths: Mapping[int | None, PathReport]) -> Finding:
    element = Element("nic-t0", plane, host)
    path = paths.get(None)
    if path is None:
        return _unknown(element, "the host does not report")
    return _judge(element, NIC_LINK, [_Pair(host, path, path, shape.slow_ns)])


def _t0_t1_link(
    shape: Shape, plane: int, t0: int, t1: int, paths: Mapping[int, Mapping[int | None, PathReport]]
) -> Finding:
    element = Element("t0-t1", plane, t0, t1)
    pairs = [
        _Pair(host, paths[host][None], paths[host][t1], shape.slow_ns)
        for host in shape.rack(t0)
        if host in paths and t1 in paths[host]
    ]
    if not pairs:
        return _unknown(element, "no host that reports probes it")
    return _judge(element, T0_T1_LINK, pairs)


def _judge(element: Element, table: Sequence[_Row], pairs: Sequence[_Pair]) -> Finding:
    """The worst that one host says and can stand for; what all say when none knows."""
    verdicts = [(next(row for row in table if row.fits(pair)), pair) for pair in pairs]
    order: list[State] = [*BAD, "suspect", "ok", "unknown"]
    state = min((row.state for row, _ in verdicts), key=order.index)
    chosen = [(row, pair) for row, pair in verdicts if row.state == state]
    row, pair = chosen[0]
    probes, lost = _newest(pair.path)
    probed = [pair.path for _, pair in chosen]
    total = sum(path.sent for path in probed)
    return Finding(
        element=element,
        state=state,
        why=row.why,
        confidence=_confidence(state, pair) if state != "unknown" else 0.0,
        loss=lost / probes if probes else 0.0,
        probes=probes,
        since_ns=min(path.since_ns for path in probed),
        found_by=tuple(pair.host for _, pair in chosen),
        rtt_p50_ns=min(path.rtt_p50_ns for path in probed),
        rtt_p99_ns=max(path.rtt_p99_ns for path in probed),
        marked=sum(path.marked for path in probed) / total if total else 0.0,
    )


def _switch(element: Element, links: dict[Key, Finding], keys: Sequence[Key]) -> Finding:
    """Judge a switch by its links, and let them be judged by the switch."""
    known = sorted(
        (key for key in keys if links[key].state != "unknown"), key=lambda key: links[key].state == "suspect"
    )
    states = [links[key].state for key in known]
    row = next(row for row in SWITCH if row.fits(states, {state for state in states if state in BAD}))
    first = links[known[0]] if known else links[keys[0]]
    finding = replace(
        first,
        element=element,
        state=row.switch or first.state,
        why=row.why,
        confidence=_CONFIDENCE.get(row.switch or first.state, min((links[k].confidence for k in known), default=0)),
        found_by=tuple(sorted({host for key in known for host in links[key].found_by})),
        since_ns=min((links[key].since_ns for key in known), default=0),
    )
    if row.links == "unknown":
        for key in keys:
            links[key] = _behind(links[key], f"behind a {element.kind.upper()} that fails")
    elif row.links is not None:
        links[known[0]] = replace(first, state=row.links, confidence=0.5, why=row.why)
    return finding


def _unknown(element: Element, why: str) -> Finding:
    return Finding(element=element, state="unknown", why=why, confidence=0.0)


def _behind(finding: Finding, why: str) -> Finding:
    return replace(finding, state="unknown", why=why, confidence=0.0)


def _odds(pair: _Pair) -> float:
    """That the T1 path loses more than the T0 path, over the newest probes that both have."""
    probes = min(pair.path.window, pair.t0.window)
    return odds_apart(pair.path.lost_of(probes), probes, pair.t0.lost_of(probes), probes)


def _newest(path: PathReport) -> tuple[int, int]:
    """(probes, lost) of the scale in which most is lost: what the path loses now."""
    scales = [(probes, path.lost_of(probes)) for probes in (min(scale, path.window) for scale in SCALES)]
    return max(scales, key=lambda scale: scale[1] / scale[0] if scale[0] else 0.0)


def _is_slow(fastest_ns: int, pair: _Pair) -> bool:
    return 0 < pair.slow_ns < fastest_ns and min(pair.path.window, pair.t0.window) >= _ENOUGH_RTTS


def _confidence(state: State, pair: _Pair) -> float:
    """Of `down`: that it is not a path that loses half of its packets; of loss behind a T0: by the odds against it."""
    if not pair.path.carrier:
        return 1.0
    if state == "down":
        return 1 - 0.5 ** max(pair.path.lost_run, DEAD_RUN)
    if state in ("lossy", "suspect") and pair.path.t1 is not None:
        odds = _odds(pair)
        return odds / (1 + odds)
    return 0.99 if state == "slow" else 1 - 1e-5 if state == "lossy" else 0.5 if state == "suspect" else 1.0
