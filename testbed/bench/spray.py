"""One flow of verified 4 KB WRITEs, sprayed over all paths of bare veths, against the raw sender on the same paths."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from testbed.bench import fabric
from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.topology.labspec import LabSpec

PAYLOAD_BYTES = 4096
_SECONDS = 2.0
_RAW_SECONDS = 1.0
PAIR = ("h0", "h1")

# Two planes of two paths. Nothing limits the rates but the machine; what they are set to gives the transport its times:
# 250 Mb/s for 100 Gb/s makes the base round trip 4.8 ms, and its timeouts longer than the pauses of a common kernel.
SPEC = LabSpec.model_validate(
    {
        "name": "bench-spray",
        "planes": 2,
        "t0_groups": 2,
        "hosts_per_t0": 1,
        "t1s_per_plane": 2,
        "rates": {"host": "250 Mb/s", "fabric": "250 Mb/s"},
    }
)


@contextlib.contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    with fabric.lab(SPEC) as running:
        fabric.unshape(running)

        def once() -> Numbers:
            with fabric.without_agents(running):
                raw = fabric.blast(running, [PAIR], PAYLOAD_BYTES, _RAW_SECONDS)
            drops = fabric.SoftnetDrops()
            small, totals = fabric.verified(running, [PAIR], PAYLOAD_BYTES, _SECONDS)
            large, large_totals = fabric.verified(running, [PAIR], 16 * PAYLOAD_BYTES, _SECONDS)
            return {
                RATIO: small / PAYLOAD_BYTES / raw,
                "ratio_of_64_kb_messages": large / PAYLOAD_BYTES / raw,
                "raw_packets_per_s": raw,
                "verified_packets_per_s": small / PAYLOAD_BYTES,
                "verified_packets_per_s_of_64_kb_messages": large / PAYLOAD_BYTES,
                "packets_lost": totals.packets_lost + large_totals.packets_lost,
                "softnet_drops": drops.count(),
                "bytes_compared": totals.bytes_delivered + large_totals.bytes_delivered,
            }

        yield once


BENCH = Bench(
    title="one flow of verified 4 KB WRITEs over four paths of bare veths",
    prepare=_prepare,
    ratio_of="verified WRITEs / frames of the raw sender",
)
