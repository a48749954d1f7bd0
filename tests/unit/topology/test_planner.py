"""The planner against the closed forms of the paper, and against the Clos that mrclab builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec
from testbed.topology.planner import fabric, plan


def test_the_papers_fabric() -> None:
    planned = plan(hosts=131_072, radix=64, planes=8)
    multi, single = planned.multi, planned.single
    assert multi.switches == {"T0": 4096, "T1": 2048} and sum(multi.switches.values()) == 6144
    assert (multi.max_hosts, single.max_hosts) == (131_072, 65_536)
    assert not single.fits, "three tiers of 64 ports end at 65 536"
    assert (round(multi.link_loss_fraction, 4), round(single.link_loss_fraction, 3)) == (0.0039, 0.031)
    assert multi.nic_link_loss_fraction == 0.125
    assert planned.optics_ratio == pytest.approx(2 / 3)
    assert planned.switch_ratio == pytest.approx(3 / 5)
    assert (multi.longest_path_switches, single.longest_path_switches) == (3, 5)
    assert multi.paths == 8 * 256
    assert planned.addressable


@given(half=st.integers(1, 128), planes=st.integers(1, 8))
def test_full_fabrics_are_the_closed_forms(half: int, planes: int) -> None:
    radix = 2 * half
    ports = planes * radix
    two = fabric(ports**2 // 2, radix, planes, tiers=2)
    assert two.switches is not None
    assert two.max_hosts == ports**2 // 2
    assert sum(two.switches.values()) == planes * (ports + ports // 2)
    three = fabric(radix**3 // 4, radix, 1, tiers=3)
    assert three.switches is not None
    assert three.max_hosts == radix**3 // 4
    assert sum(three.switches.values()) == 5 * radix**2 // 4
    for one in (two, three):
        assert one.switches is not None
        assert one.switches_per_host == pytest.approx(sum(one.switches.values()) / one.max_hosts)
        assert one.links_up == (one.tiers - 1) * one.max_hosts * one.planes, "non-blocking: as much up as down"


@given(hosts=st.integers(1, 5000), half=st.integers(1, 16), planes=st.integers(1, 8))
def test_ports_suffice(hosts: int, half: int, planes: int) -> None:
    for tiers in (2, 3):
        one = fabric(hosts, 2 * half, planes, tiers)
        if one.switches is None:
            assert hosts > one.max_hosts
            continue
        ports = one.radix
        assert one.switches["T0"] // planes * (ports // 2) >= hosts
        assert one.links_up is not None
        per_layer = one.links_up // (tiers - 1)
        assert one.switches[f"T{tiers - 1}"] * ports >= per_layer, "the top tier has a port for each link"


def test_a_full_lab_has_as_many_switches_and_links() -> None:
    """radix 2, 2 planes: R' = 4, so 4 racks of 2 hosts and 2 T1s in each plane."""
    built = clos.build(LabSpec(name="full", planes=2, t0_groups=4, hosts_per_t0=2, t1s_per_plane=2))
    planned = fabric(8, radix=2, planes=2, tiers=2)
    assert planned.switches is not None
    assert len(built.switches) == sum(planned.switches.values())
    assert len(built.links) == (planned.links_host or 0) + (planned.links_up or 0)


@pytest.mark.parametrize(
    ("hosts", "radix", "planes", "says", "hint"),
    [
        (131_073, 64, 8, "carry 131072 hosts, not 131073", "more ports"),
        (5000, 64, 1, "carry 2048 hosts", "2 planes would do"),
        (10, 63, 8, "radix of 63", "even number"),
        (10, 64, 9, "9 planes", "1 to 8"),
        (0, 64, 8, "0 hosts", "1 or more"),
    ],
)
def test_what_cannot_be_is_refused(hosts: int, radix: int, planes: int, says: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        plan(hosts, radix, planes)
    assert says in refused.value.what and hint in refused.value.hint


def test_when_usids_have_no_room_it_says_so() -> None:
    assert not plan(100_000, 128, 8).addressable
    assert plan(1000, 64, 8).addressable
