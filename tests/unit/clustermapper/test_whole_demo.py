"""Each link and switch of a fabric as large as `demo`, dead and lossy: found, and nothing else accused."""

from __future__ import annotations

from random import Random

import pytest

from agents.clustermapper.element import Element
from agents.clustermapper.evidence import probes_needed, probes_needed_apart
from tests.unit.clustermapper.rack import Fabric, Shape
from tests.unit.clustermapper.test_localise import part_of

DEMO = Shape(planes=4, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4)
ELEMENTS = [
    *(Element("nic-t0", plane, host) for plane in range(4) for host in range(8)),
    *(Element("t0-t1", plane, t0, t1) for plane in range(4) for t0 in range(2) for t1 in range(4)),
    *(Element("t0", plane, t0) for plane in range(4) for t0 in range(2)),
    *(Element("t1", plane, t1) for plane in range(4) for t1 in range(4)),
]


def links_of(element: Element) -> list[Element]:
    """What loses packets when an element does: a link itself, of a switch all its links."""
    return [part for part in part_of(element, DEMO) if part.kind in ("nic-t0", "t0-t1")]


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", ["dead", "5 % one way", "5 % both ways"])
def test_each_element_of_demo_is_found(case: str, rng: Random) -> None:
    """Within ten intervals, or the probes that the test needs 99 times of 100; of 88 elements few may need more."""
    late = 0
    for element in ELEMENTS:
        fabric = Fabric(rng, DEMO)
        fabric.run(10 + rng.random())
        fabric.losses = dict.fromkeys(links_of(element), 1.0 if case == "dead" else 0.05)
        fabric.one_way = case == "5 % one way"
        state, limit = "down", 10
        if case != "dead":
            needed = probes_needed if element.kind in ("nic-t0", "t0") else probes_needed_apart
            state, limit = "lossy", needed(0.05 if fabric.one_way else 1 - 0.95**2) + 4
        passed, found = 0, fabric.accused()
        while found != {element: state}:
            assert passed <= (limit if case == "dead" else 3 * limit), (element, found)
            fabric.run(2)
            passed += 2
            found = fabric.accused()
            assert set(found) <= part_of(element, DEMO), (element, passed)
        late += passed > limit
    assert late <= 0.05 * len(ELEMENTS)
