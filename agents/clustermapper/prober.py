"""The prober of one NIC: sends self-probes by a schedule, takes them back, judges paths, and decides about its planes.

    T0 probe: host > T0 > same port          outer address: block | T0 | own downlink
    T1 probe: host > T0 > T1 > T0 > same port         block | T0 | T1 | T0 | own downlink

In a traffic class of its own, which is queued, marked and dropped as data is, and never trimmed. Time is divided into
beats: the interval by the number of paths of a plane. In each beat one probe goes out on each plane, so that no link
sees two at once; the hosts of a rack begin their beats one after another, so that no T1 does. A beat that was missed is
left out. Follows the calling rules of `agents.transport`; what it hands out are (plane, buffers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from agents.clustermapper.policy import Decision, PlanePolicy
from agents.clustermapper.report import HostReport
from agents.clustermapper.settings import TIMEOUT_INTERVALS, Settings
from agents.clustermapper.shares import deal
from agents.clustermapper.track import Track
from agents.wire import address, dscp, ev, frame
from agents.wire.frame import PathTemplate
from agents.wire.headers import ENDPOINT_QP, EndpointOperation, EndpointRequest, Opcode
from agents.wire.icrc import Buffer
from agents.wire.packet import DEFAULT_UDP_PORT, Packet

Probe = tuple[int, tuple[Buffer, ...]]

_ID_MASK = 0xFFFF
_REMEMBERED = 1 << 13  # lost probes that may still be late
_TIMEOUT_RTTS = 4


class Prober:
    """All self-probes of one host."""

    def __init__(
        self,
        host: int,
        *,
        planes: int,
        hosts_per_t0: int,
        t1s_per_plane: int,
        block: int = address.DEFAULT_BLOCK,
        udp_port: int = DEFAULT_UDP_PORT,
    ) -> None:
        """Off at first. `host`: its number in the fabric, the rest is the fabric's shape."""
        self.settings = Settings()
        self._host = host
        self._planes = planes
        self._t0, self._slot = divmod(host, hosts_per_t0)
        self._hosts_per_t0 = hosts_per_t0
        self._t1s = t1s_per_plane
        self._block = block
        self._udp_port = udp_port
        self._ports_up = (1 << planes) - 1
        self._tracks: dict[tuple[int, int | None], Track] = {}
        self._templates: dict[tuple[int, int | None], PathTemplate] = {}
        self._beats: list[list[Track]] = []  # what goes out in each beat of an interval
        self._beat_ns = 0
        self._due_ns: int | None = None
        self._next_id = 0
        self._under_way: dict[int, tuple[Track, int, bool]] = {}  # number -> track, sent, taken for lost
        self._out: deque[Probe] = deque()
        self._policies = [PlanePolicy(plane) for plane in range(planes)]
        self._decisions: list[Decision] = []

    # What the NIC calls

    def configure(self, settings: Settings, now: int) -> None:
        """Probe like this from now on. What is known of the paths stays, unless it is switched off."""
        self.settings = settings
        self._next_id &= _ID_MASK
        if settings.policy == "off":
            self._tracks.clear()
            self._under_way.clear()
            self._beats = []
            self._due_ns = None
        elif not self._tracks:
            rack = range(self._t0 * self._hosts_per_t0, (self._t0 + 1) * self._hosts_per_t0)
            self.share({plane: deal(rack, self._t1s, plane)[self._host] for plane in range(self._planes)}, now)
        else:
            self._schedule(now)
        if settings.policy != "act":
            for policy in self._policies:
                if policy.denied:
                    policy.denied = False
                    self._decisions.append(Decision(now, policy.plane, "allowed", f"policy {settings.policy}", 0, 0))

    def share(self, t1s: Mapping[int, Sequence[int]], now: int) -> None:
        """Probe these T1s, by plane; planes that are not named keep theirs. Raises ValueError for what is not there."""
        for plane, wanted in t1s.items():
            if not 0 <= plane < self._planes or not all(0 <= t1 < self._t1s for t1 in wanted):
                raise ValueError(f"no plane {plane} with the T1s {list(wanted)}")
        for plane, wanted in t1s.items():
            keys = (None, *wanted)
            for t1 in [t1 for at, t1 in self._tracks if at == plane and t1 not in keys]:
                del self._tracks[plane, t1]
            for t1 in keys:
                self._tracks.setdefault((plane, t1), Track(plane, t1, now))
        if self.settings.policy != "off":
            self._schedule(now)

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """The NIC's port lost or regained carrier."""
        bit = 1 << port
        self._ports_up = self._ports_up | bit if up else self._ports_up & ~bit
        for track in self._tracks.values():
            if track.plane == port:
                track.pending.clear()
                track.forget(now)

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next, in ns; None for never."""
        return self._due_ns

    def handle_timer(self, now: int) -> None:
        """Find out what is lost, and send what the beat has."""
        if self._due_ns is None or now < self._due_ns:
            return
        self._miss(now)
        beat = (now - self._phase_ns) // self._beat_ns
        self._due_ns = (beat + 1) * self._beat_ns + self._phase_ns
        for track in self._beats[beat % len(self._beats)]:
            if self._ports_up >> track.plane & 1:
                self._out.append(self._probe(track, now))

    def probes(self) -> deque[Probe]:
        """(plane, buffers) to be sent now, first come first; the caller takes them out."""
        return self._out

    def receive(self, port: int, packet: Packet, now: int) -> bool:
        """Take a packet from ourselves; False when it is none of these probes."""
        body = packet.body
        if not isinstance(body, EndpointRequest) or body.operation != EndpointOperation.SELF_PROBE:
            return False
        found = self._under_way.pop(body.request_id, None)
        if found is None:
            return packet.dscp == dscp.SELF_PROBE  # one from before we were switched off
        track, sent_ns, missed = found
        marked = packet.ecn == dscp.CE
        if track.plane != port:
            return False
        if missed:
            track.came_late(body.request_id, sent_ns, marked, now)
        else:
            track.returned(sent_ns, marked, now)
        return True

    def decide(self, usable: int, needed: Sequence[int], now: int) -> list[Decision]:
        """What the policy changes now, with what it changed since the last call.

        `usable`: bit p: plane p has carrier. `needed`: for each peer, the planes that it has up: none may be cut off.
        """
        decisions, self._decisions = self._decisions, []
        if self.settings.policy == "act":
            for policy in self._policies:
                track = self._tracks.get((policy.plane, None))
                if track is None or not usable >> policy.plane & 1:
                    continue
                rest = usable & ~self.denied & ~(1 << policy.plane)
                last = not rest or any(not rest & planes for planes in needed if planes & 1 << policy.plane)
                decision = policy.decide(track, self.settings, last, now)
                if decision is not None:
                    decisions.append(decision)
        return decisions

    @property
    def denied(self) -> int:
        """Bit p: the policy has taken plane p out of use."""
        return sum(1 << policy.plane for policy in self._policies if policy.denied)

    def report(self, now: int) -> HostReport:
        """All that is known."""
        return HostReport(
            host=self._host,
            now_ns=now,
            policy=self.settings.policy,
            interval_ns=self.settings.interval_ns,
            denied=[policy.plane for policy in self._policies if policy.denied],
            paths=[track.report(bool(self._ports_up >> track.plane & 1)) for track in self._tracks.values()],
        )

    # Its own business

    @property
    def _phase_ns(self) -> int:
        return self._beat_ns * self._slot // self._hosts_per_t0

    def _schedule(self, now: int) -> None:
        """Deal the paths out to beats: T0 paths first, then each plane's T1s in their order."""
        by_plane: list[list[Track]] = [[] for _ in range(self._planes)]
        for track in sorted(self._tracks.values(), key=lambda track: -1 if track.t1 is None else track.t1):
            by_plane[track.plane].append(track)
        beats = max(len(tracks) for tracks in by_plane)
        self._beats = [[tracks[beat] for tracks in by_plane if beat < len(tracks)] for beat in range(beats)]
        self._beat_ns = self.settings.interval_ns // beats
        self._due_ns = ((now - self._phase_ns) // self._beat_ns + 1) * self._beat_ns + self._phase_ns

    def _probe(self, track: Track, now: int) -> Probe:
        number, self._next_id = self._next_id, self._next_id + 1 & _ID_MASK
        track.sent += 1
        track.pending.append((number, now))
        self._under_way.pop(number, None)
        self._under_way[number] = track, now, False
        if len(self._under_way) > _REMEMBERED:
            del self._under_way[next(iter(self._under_way))]
        template = self._template(track)
        body = EndpointRequest(EndpointOperation.SELF_PROBE, number, template.ev)
        buffers = frame.control(
            template, dest_qp=ENDPOINT_QP, psn=0, opcode=Opcode.ENDPOINT_REQUEST, body=body, dscp=dscp.SELF_PROBE
        )
        return track.plane, buffers

    def _miss(self, now: int) -> None:
        shortest_ns = TIMEOUT_INTERVALS * self.settings.interval_ns
        for track in self._tracks.values():
            timeout_ns = max(shortest_ns, _TIMEOUT_RTTS * track.smooth_rtt_ns)
            pending = track.pending
            while pending:
                number, sent_ns = pending[0]
                state = self._under_way.get(number)
                if state is None or state[0] is not track or state[1] != sent_ns:  # back already
                    pending.popleft()
                elif now - sent_ns >= timeout_ns:
                    pending.popleft()
                    self._under_way[number] = track, sent_ns, True
                    track.missed(number, sent_ns, now)
                else:
                    break

    def _template(self, track: Track) -> PathTemplate:
        key = track.plane, track.t1
        template = self._templates.get(key)
        if template is None:
            own = address.host_address(self._host)
            template = self._templates[key] = PathTemplate(
                src=own,
                dst=own,
                usids=address.loop_usids(track.plane, self._t0, track.t1, self._slot),
                ev=ev.make(track.plane, track.t1 or 0),
                block=self._block,
                udp_port=self._udp_port,
            )
        return template
