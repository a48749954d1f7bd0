"""All hosts of `demo` at once through shaped ports, against raw senders at all of them through the same ports.

The rates are far above what the machine carries, so that the raw senders are bound by the CPUs and not by the lines;
what they reach of the lines is among the numbers, and a bench of lines that bound them would be refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from testbed.bench import fabric
from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.topology.errors import InvalidRunError
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec, Rates

PAYLOAD_BYTES = 4096
_MESSAGE_BYTES = 16 * PAYLOAD_BYTES
_SECONDS = 3.0
_RAW_SECONDS = 1.5
_RATE = "400 Mb/s"
_CPU_BOUND_BELOW = 0.8  # of what the lines carry
_BITS_PER_BYTE = 8


def _spec() -> LabSpec:
    rates = Rates.model_validate({"host": _RATE, "fabric": _RATE})
    return load_lab("demo").model_copy(update={"name": "bench-aggregate", "rates": rates})


@contextlib.contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    spec = _spec()
    half = spec.hosts // 2
    pairs = [(f"h{host}", f"h{(host + half) % spec.hosts}") for host in range(spec.hosts)]
    line_bytes_per_s = spec.hosts * spec.planes * spec.rates.host / _BITS_PER_BYTE
    with fabric.lab(spec) as running:

        def once() -> Numbers:
            with fabric.without_agents(running):
                raw = fabric.blast(running, pairs, PAYLOAD_BYTES, _RAW_SECONDS)
            of_lines = raw * PAYLOAD_BYTES / line_bytes_per_s
            if of_lines > _CPU_BOUND_BELOW:
                raise InvalidRunError(f"the raw senders fill {of_lines:.0%} of the lines: no CPU binds them")
            drops = fabric.SoftnetDrops()
            goodput, totals = fabric.verified(running, pairs, _MESSAGE_BYTES, _SECONDS)
            return {
                RATIO: goodput / PAYLOAD_BYTES / raw,
                "raw_packets_per_s": raw,
                "raw_share_of_lines": of_lines,
                "verified_packets_per_s": goodput / PAYLOAD_BYTES,
                "packets_lost": totals.packets_lost,
                "packets_sent": totals.packets_sent,
                "softnet_drops": drops.count(),
                "bytes_compared": totals.bytes_delivered,
            }

        yield once


BENCH = Bench(
    title="verified WRITEs of all hosts of demo through shaped ports",
    prepare=_prepare,
    ratio_of="verified packets / frames of the raw senders",
    alternations=3,
)
