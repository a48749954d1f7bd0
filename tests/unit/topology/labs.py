"""Small labs for the tests of this folder."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec

LINE_BPS = 20_000_000  # of the default lab, per port

DEMO = {"planes": 4, "t0_groups": 2, "hosts_per_t0": 4, "t1s_per_plane": 4}


def lab(**changes: Any) -> Clos:
    """The shape of `demo`, with changes."""
    return clos.build(LabSpec(**{"name": "test", **DEMO, **changes}))


def small_labs(fewest_racks: int = 1, most_racks: int = 3) -> st.SearchStrategy[Clos]:
    """Labs of up to 3 planes, racks of up to 3 hosts, and 3 T1s."""
    sizes = st.integers(1, 3)
    return st.builds(
        lab, planes=sizes, t0_groups=st.integers(fewest_racks, most_racks), hosts_per_t0=sizes, t1s_per_plane=sizes
    )
