"""The registry of kinds: each says what it happens to, what it leaves of the fabric, and is in the documentation."""

from pathlib import Path
from random import Random

import pytest

from testbed.chaos import document
from testbed.chaos.kinds import KINDS
from testbed.chaos.kinds.acts import Down
from testbed.chaos.kinds.kind import damage
from testbed.topology.targets import resolve
from tests.unit.chaos import scenarios

CLOS = scenarios.small_lab()
LINK = "p0t0-0:p0t1-1"


def damage_of(kind: str, target: str, **options: float) -> dict[str, float]:
    found = KINDS[kind]
    return damage(CLOS, found.acts(found.case(resolve(CLOS, target, Random(0)), None, options)))


def test_the_page_for_users_is_current() -> None:
    path = Path(__file__).parents[3] / "docs" / "faults.md"
    assert path.read_text() == document.page() + "\n", "python -m testbed.chaos.document > docs/faults.md"


def test_every_kind_of_the_list_is_here() -> None:
    assert len(KINDS) == 24
    assert all(kind.doc and name == kind.name for name, kind in KINDS.items())


@pytest.mark.parametrize(
    ("kind", "target", "left"),
    [
        ("link-down", LINK, {LINK: 0.0}),
        ("black-hole", LINK, {LINK: 0.0}),
        ("loss-of-light", LINK, {"p0t0-0>p0t1-1": 0.0}),
        ("rate-drop", LINK, {LINK: 0.25}),
        ("loss", LINK, {}),
        ("t1-reboot", "switch p0t1-1", {LINK: 0.0, "p0t0-1:p0t1-1": 0.0}),
        ("not-forwarding", "switch p0t1-1", {"p0t1-1>p0t0-0": 0.0, "p0t1-1>p0t0-1": 0.0}),
        ("nic-transceiver", "transceiver h1", {"h1:p0t0-0": 0.0, "h1:p1t0-0": 0.0}),
        ("agent-pause", "host h1", {}),
    ],
)
def test_what_the_capacity_oracle_is_told(kind: str, target: str, left: dict[str, float]) -> None:
    assert damage_of(kind, target) == left


def test_a_plane_that_is_down_is_down_at_every_port() -> None:
    kind = KINDS["plane-down"]
    acts = kind.acts(kind.case(resolve(CLOS, "plane 1", Random(0)), None, {}))
    ports = [port for link in CLOS.links.values() if link.plane == 1 for port in link.ends()]
    assert acts == tuple(Down(port) for port in ports)


def test_marking_everything_never_has_kmin_above_kmax_on_the_way_there_or_back() -> None:
    kind = KINDS["ecn-mark-all"]
    acts = kind.acts(kind.case(resolve(CLOS, LINK, Random(0)), "near", {}))
    names = [act.key[2] for act in acts]
    assert names.index("kmin_bytes") < names.index("kmax_bytes")
