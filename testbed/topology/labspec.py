"""The schema of a lab file (`topologies/*.yaml`): what a person may say about a lab, and what is refused.

Loading with file and line is `labfile`'s; the Clos that follows from it is `clos`'s. Limits are those of the address
plan (`agents.wire.address`), of the packet sizes (`sizes`) and of what the kernel can shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agents.wire import address
from testbed.topology.healthspec import Health
from testbed.topology.sizes import ALL_HEADERS_BYTES, ETHERNET_HEADER_BYTES, MIN_MTU_BYTES, PAYLOAD_BYTES
from testbed.topology.transportspec import Transport
from testbed.topology.units import DurationNs, Fraction, RateBps, SizeBytes, format_duration, format_rate, format_size
from testbed.topology.yamlfile import Problem, refuse

MAX_NAME_LENGTH = 15  # the kernel's limit for interface names; every name of a lab keeps to it
NAME_PATTERN = "^[a-z][a-z0-9-]*$"
MIN_QUEUE_PACKETS = 2
MAX_QUEUE_BYTES = 1 << 30
CABLE_NS = 1_000  # a switch and 100 m of fibre
NS_BITS = 8 * 10**9  # ns a byte takes at 1 bit/s

MIN_RATE_BPS = 100_000  # one packet of 4 KB takes 0.34 s: slower than that, a run shows nothing
MAX_EMULATED_BPS = 100_000_000_000
MAX_REAL_BPS = 3_200_000_000_000


class _Section(BaseModel):
    # strict: a lab file says 4, not "4" and not true.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)


class Rates(_Section):
    """Emulated line rates, per port and direction."""

    host: RateBps = Field(default="20 Mb/s", description="NIC-T0 links")  # type: ignore[assignment]
    fabric: RateBps = Field(default="20 Mb/s", description="T0-T1 links")  # type: ignore[assignment]

    @field_validator("host", "fabric")
    @classmethod
    def _rate_can_be_emulated(cls, rate_bps: int) -> int:
        return _rate_in_range(rate_bps, MAX_EMULATED_BPS, "an emulated rate")


class RealRates(_Section):
    """The line rates of the real network that a lab stands for."""

    host: RateBps = Field(default="100 Gb/s", description="NIC-T0 links")  # type: ignore[assignment]
    fabric: RateBps = Field(default="100 Gb/s", description="T0-T1 links")  # type: ignore[assignment]

    @field_validator("host", "fabric")
    @classmethod
    def _rate_exists(cls, rate_bps: int) -> int:
        return _rate_in_range(rate_bps, MAX_REAL_BPS, "a real rate")


class Queue(_Section):
    """The queue of every switch port, and what is done about a long one.

    The defaults are in packets of 4 KB, so that time dilation does not matter. The lab's round trip without queues is
    about five packet times (four hops, and a NIC that may send two back to back), and NSCC's target delay is 0.75 of
    it. Kmin = 4 packets is that target: fewer are the jitter of spraying, more is a path fuller than others. Kmax = 16
    is three round trips, which no flow builds up alone; in between marks rise to all packets, since each one has to
    decide about its path. Trimming at 64 leaves room for the NSCC windows of an incast before anything is cut.
    """

    size: SizeBytes = Field(default="2 MB", description="bytes a port can hold before it drops")  # type: ignore[assignment]
    ecn: bool = Field(default=True, description="switches mark data (CE) when their queue is long")
    ecn_last_hop: bool = Field(default=False, description="also towards hosts: a mark then no longer speaks of paths")
    kmin: SizeBytes = Field(default="16 KB", description="queue up to which nothing is marked")  # type: ignore[assignment]
    kmax: SizeBytes = Field(default="64 KB", description="queue from which everything is marked")  # type: ignore[assignment]
    pmax: Fraction = Field(default=1.0, description="fraction that is marked just below kmax, rising from 0 at kmin")
    trimming: bool = Field(default=True, description="switches cut the payload off data that finds trim_at bytes")
    trim_at: SizeBytes = Field(default="256 KB", description="queue that data may fill before it is trimmed")  # type: ignore[assignment]
    pfc: bool = Field(
        default=False, description="switches pause who sends them data before it would be dropped (mrclab sim only)"
    )
    xoff: SizeBytes = Field(default="128 KB", description="pfc: a switch pauses a link of whose data it holds more")  # type: ignore[assignment]
    xon: SizeBytes = Field(default="96 KB", description="pfc: and lets it go on when it holds so little")  # type: ignore[assignment]


class Delay(_Section):
    """What the cables add to each packet, each way. It needs netem in the kernel."""

    host: DurationNs = Field(default="0 ms", description="NIC-T0 links")  # type: ignore[assignment]
    fabric: DurationNs = Field(default="0 ms", description="T0-T1 links")  # type: ignore[assignment]
    jitter: DurationNs = Field(default="0 ms", description="up to so much more or less, on links with a delay")  # type: ignore[assignment]


class Bgp(_Section):
    """Timers of `routing: bgp`. They are FRR's and run in the lab's own seconds, whatever its time dilation."""

    bfd: bool = Field(default=True, description="bgp: BFD watches the links, so that a silent death is seen")
    bfd_interval: DurationNs = Field(default="300 ms", description="bgp: between BFD packets; dead after three missed")  # type: ignore[assignment]
    hold_time: DurationNs = Field(default="9 s", description="bgp: silence after which a session is dead, without BFD")  # type: ignore[assignment]

    @field_validator("bfd_interval")
    @classmethod
    def _frr_takes_the_interval(cls, interval_ns: int) -> int:
        return _whole(interval_ns, 1_000_000, 10, 60_000, "ms")

    @field_validator("hold_time")
    @classmethod
    def _frr_takes_the_hold_time(cls, hold_ns: int) -> int:
        return _whole(hold_ns, 1_000_000_000, 3, 65_535, "s")


def _whole(value_ns: int, unit_ns: int, least: int, most: int, unit: str) -> int:
    if value_ns % unit_ns or not least <= value_ns // unit_ns <= most:
        raise ValueError(f"{format_duration(value_ns)} is not what FRR takes; write a whole {least} to {most} {unit}")
    return value_ns


class LabSpec(_Section):
    """A lab file, checked. The description of each field is what the JSON schema and the complaints show."""

    name: str = Field(
        max_length=MAX_NAME_LENGTH,
        pattern=NAME_PATTERN,
        description=f"1 to {MAX_NAME_LENGTH} characters a-z, 0-9 and '-', a letter first; default: the file's name",
    )
    planes: int = Field(ge=1, le=address.MAX_PLANES, description="parallel networks, one NIC port each")
    t0_groups: int = Field(
        ge=1, le=address.MAX_T0_PER_PLANE, description="racks; each has one T0 switch per plane, linked to every T1"
    )
    hosts_per_t0: int = Field(
        ge=1, le=address.MAX_DOWNLINKS_PER_T0, description="hosts in a rack, each a downlink of its T0s"
    )
    t1s_per_plane: int = Field(
        ge=1, le=address.MAX_T1_PER_PLANE, description="T1 switches, each linked to every T0 of its plane"
    )
    radix: int | None = Field(
        default=None, ge=2, description="ports of a switch; default: as many as the wiring needs (only a check)"
    )
    rates: Rates = Field(default_factory=Rates, description="emulated line rates")
    mtu: int = Field(
        default=4400, le=9000, description=f"bytes, of every link: {PAYLOAD_BYTES} of payload and the headers"
    )
    queue: Queue = Field(default_factory=Queue, description="the queue of every switch port")
    delay: Delay = Field(default_factory=Delay, description="what cables add; needs netem in the kernel")
    routing: Literal["srv6", "ecmp", "bgp"] = Field(
        default="srv6",
        description="how the fabric forwards: srv6, as the sender says; by a hash of each flow: ecmp, static; bgp, FRR",
    )
    bgp: Bgp = Field(default_factory=Bgp, description="timers of routing: bgp")
    transport: Transport = Field(default_factory=Transport, description="defaults of the queue pairs")
    health: Health = Field(
        default_factory=Health, description="Clustermapper: self-probes, and what is done about loss"
    )
    stands_for: RealRates = Field(
        default_factory=RealRates, description="the real rates that the emulated ones stand for"
    )

    @field_validator("mtu")
    @classmethod
    def _payload_fits(cls, mtu: int) -> int:
        if mtu < MIN_MTU_BYTES:
            raise ValueError(
                f"{mtu} is too small for {PAYLOAD_BYTES} bytes of payload and {ALL_HEADERS_BYTES} of headers; "
                f"write {MIN_MTU_BYTES} or more"
            )
        return mtu

    @model_validator(mode="after")
    def _parts_fit_together(self) -> LabSpec:
        paths = self.planes * self.t1s_per_plane
        refuse(
            [
                *_wiring_problems(self),
                *_queue_problems(self),
                *_pfc_problems(self),
                *_delay_problems(self),
                *_routing_problems(self),
                *self.transport.problems(paths, self.transport.model_fields_set),
                *_rate_problems(self),
            ]
        )
        return self

    @property
    def time_dilation(self) -> float:
        """Real rate / emulated rate: how much slower the lab's time runs than the real fabric's."""
        return self.stands_for.host / self.rates.host

    @property
    def source_routed(self) -> bool:
        """Whether an EV says which path its packets take; where the fabric hashes, it only picks one."""
        return self.routing == "srv6"

    @property
    def hosts(self) -> int:
        """Hosts in the whole lab."""
        return self.t0_groups * self.hosts_per_t0


def is_lab_name(text: str) -> bool:
    """Could a lab have this name? (A path, for example, is none.)"""
    return len(text) <= MAX_NAME_LENGTH and re.fullmatch(NAME_PATTERN, text) is not None


def _rate_in_range(rate_bps: int, most_bps: int, what: str) -> int:
    if not MIN_RATE_BPS <= rate_bps <= most_bps:
        raise ValueError(
            f"{format_rate(rate_bps)} makes no sense as {what}; "
            f"write {format_rate(MIN_RATE_BPS)} to {format_rate(most_bps)}"
        )
    return rate_bps


def _wiring_problems(spec: LabSpec) -> Iterator[Problem]:
    if spec.radix is None:
        return
    t0_ports = spec.hosts_per_t0 + spec.t1s_per_plane
    if t0_ports > spec.radix:
        yield Problem(
            ("radix",),
            f"a T0 needs {t0_ports} ports ({spec.hosts_per_t0} hosts, {spec.t1s_per_plane} T1s), radix is {spec.radix}",
            f"write radix: {t0_ports}, or fewer hosts_per_t0 or t1s_per_plane",
        )
    if spec.t0_groups > spec.radix:
        yield Problem(
            ("radix",),
            f"a T1 needs {spec.t0_groups} ports (one for each T0 of its plane), radix is {spec.radix}",
            f"write radix: {spec.t0_groups}, or fewer t0_groups",
        )


def _queue_problems(spec: LabSpec) -> Iterator[Problem]:
    least_bytes = MIN_QUEUE_PACKETS * (spec.mtu + ETHERNET_HEADER_BYTES)
    queue = spec.queue
    for name, bytes_held in (("size", queue.size), ("trim_at", queue.trim_at)):
        if bytes_held < least_bytes:
            yield Problem(
                ("queue", name),
                f"a queue of {bytes_held} B does not hold {MIN_QUEUE_PACKETS} packets of MTU {spec.mtu}",
                f"write {-(-least_bytes // 1024)} KB or more",
            )
    for name in ("size", "kmin", "kmax", "trim_at"):
        if getattr(queue, name) > MAX_QUEUE_BYTES:
            yield Problem(
                ("queue", name),
                f"{format_size(getattr(queue, name))} is more than a port can hold",
                f"write {format_size(MAX_QUEUE_BYTES)} or less",
            )
    if queue.kmin > queue.kmax:
        yield Problem(
            ("queue", "kmin"),
            f"kmin is {format_size(queue.kmin)}, above kmax, which is {format_size(queue.kmax)}",
            f"write {format_size(queue.kmax)} or less",
        )
    if queue.trimming and queue.trim_at > queue.size and "trim_at" in queue.model_fields_set:
        yield Problem(
            ("queue", "trim_at"),
            f"data would be dropped at {format_size(queue.size)} (size) before it is trimmed",
            f"write {format_size(queue.size)} or less",
        )


def _pfc_problems(spec: LabSpec) -> Iterator[Problem]:
    queue = spec.queue
    if not queue.pfc:
        return
    if not MIN_QUEUE_PACKETS * spec.mtu <= queue.xoff:
        yield Problem(("queue", "xoff"), f"{format_size(queue.xoff)} holds no two packets", "write 128 KB, say")
    if queue.xon > queue.xoff:
        yield Problem(("queue", "xon"), f"xon is above xoff, {format_size(queue.xoff)}", "write less than xoff")
    # One queue may hold what all other ports of its switch sent, each up to XOFF and what comes before the pause acts.
    ports = max(spec.hosts_per_t0 + spec.t1s_per_plane, spec.t0_groups) - 1
    worst_bytes = ports * (queue.xoff + pause_headroom_bytes(spec))
    if worst_bytes > queue.size:
        yield Problem(
            ("queue", "pfc"),
            f"{ports} ports can bring {format_size(worst_bytes)} into one queue before they are all paused, and a port "
            f"holds {format_size(queue.size)}",
            "write a larger size, or a smaller xoff",
        )


def pause_headroom_bytes(spec: LabSpec) -> int:
    """What still comes in on a link after a pause was due: a packet each way at its end, and what the cable holds."""
    on_the_cable = 2 * CABLE_NS * max(spec.stands_for.host, spec.stands_for.fabric) // NS_BITS
    return 3 * (spec.mtu + ETHERNET_HEADER_BYTES) + on_the_cable


def _delay_problems(spec: LabSpec) -> Iterator[Problem]:
    delays = [delay for delay in (spec.delay.host, spec.delay.fabric) if delay]
    least = min(delays, default=0)
    if spec.delay.jitter > least:
        yield Problem(
            ("delay", "jitter"),
            f"a delay of {format_duration(least)} cannot be {format_duration(spec.delay.jitter)} less",
            f"write {format_duration(least)} or less",
        )


def _routing_problems(spec: LabSpec) -> Iterator[Problem]:
    if spec.health.policy != "off" and not spec.source_routed:
        yield Problem(
            ("health", "policy"),
            f"self-probes need a path of their own choice, and routing: {spec.routing} chooses for them",
            "write policy: off, or routing: srv6",
        )
    if spec.routing != "bgp" and spec.bgp != Bgp():
        yield Problem(("bgp",), f"no BGP runs with routing: {spec.routing}", "write routing: bgp, or leave bgp out")


def _rate_problems(spec: LabSpec) -> Iterator[Problem]:
    rates, real = spec.rates, spec.stands_for
    where = ("stands_for",) if "stands_for" in spec.model_fields_set else ("rates",)
    if real.host * rates.fabric != real.fabric * rates.host:
        yield Problem(
            where,
            "rates and stands_for differ in the ratio of host to fabric, but time dilation is one number",
            f"write rates.fabric: {format_rate(rates.host * real.fabric / real.host)}, "
            f"or stands_for.fabric: {format_rate(real.host * rates.fabric / rates.host)}",
        )
    elif real.host < rates.host:
        yield Problem(
            where,
            f"the real rate {format_rate(real.host)} is below the emulated rate {format_rate(rates.host)}",
            f"write {format_rate(rates.host)} or more",
        )
