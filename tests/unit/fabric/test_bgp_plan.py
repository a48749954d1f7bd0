"""What FRR is told, and what it has to learn: as RFC 7938 has it, and as the Clos is."""

from __future__ import annotations

from typing import Any

from testbed.fabric import plan
from testbed.fabric.routing import bgp
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec


def lab(**more: Any) -> Clos:
    shape = {"planes": 2, "t0_groups": 3, "hosts_per_t0": 2, "t1s_per_plane": 2}
    return clos.build(LabSpec(name="lab", routing="bgp", **{**shape, **more}))


def lines(fabric: Clos, switch: str, daemon: str = "bgpd") -> list[str]:
    return [line.strip() for line in bgp.configuration(fabric, fabric.nodes[switch])[daemon].splitlines()]


def test_t0s_have_an_as_each_and_the_t1s_of_a_plane_one_together() -> None:
    fabric = lab()
    numbers = {switch.name: bgp.as_number(switch) for switch in fabric.switches}
    assert numbers["p0t1-0"] == numbers["p0t1-1"] != numbers["p1t1-0"]
    t0s = [number for name, number in numbers.items() if "t0-" in name]
    assert len(set(t0s)) == len(t0s) == 6
    assert all(4_200_000_000 <= number <= 4_294_967_294 for number in numbers.values())
    assert len({bgp.router_id(switch) for switch in fabric.switches}) == len(fabric.switches)


def test_a_switch_speaks_over_its_links_to_switches_and_a_t0_announces_its_hosts() -> None:
    fabric = lab()
    t0, t1 = lines(fabric, "p1t0-2"), lines(fabric, "p1t1-0")
    assert [line.split()[1] for line in t0 if "interface" in line] == ["p1t1-0", "p1t1-1"]
    assert [line.split()[1] for line in t1 if "interface" in line] == ["p1t0-0", "p1t0-1", "p1t0-2"]
    assert [line for line in t0 if line.startswith("network")] == [
        "network fd6d:7263::5/128",
        "network fd6d:7263::6/128",
    ]
    assert not [line for line in t1 if line.startswith("network")]


def test_bfd_is_a_choice_and_its_interval_is_as_asked() -> None:
    with_bfd, without = lab(bgp={"bfd_interval": "50 ms"}), lab(bgp={"bfd": False, "hold_time": "30 s"})
    assert "transmit-interval 50" in lines(with_bfd, "p0t0-0", "bfdd")
    assert "neighbor fabric bfd" in lines(with_bfd, "p0t0-0")
    assert "bfdd" not in bgp.configuration(without, without.nodes["p0t0-0"])
    assert not [line for line in lines(without, "p0t0-0") if "bfd" in line]
    assert "timers bgp 10 30" in lines(without, "p0t0-0")


def test_a_t0_learns_other_racks_over_every_t1_and_a_t1_every_host_over_one_link() -> None:
    fabric = lab()
    assert bgp.learned(fabric, fabric.nodes["p0t0-1"]) == {f"fd6d:7263::{host}/128": 2 for host in (1, 2, 5, 6)}
    assert bgp.learned(fabric, fabric.nodes["p1t1-0"]) == {f"fd6d:7263::{host}/128": 1 for host in range(1, 7)}


def test_between_switches_nothing_is_static_but_the_addresses_of_the_sessions() -> None:
    nodes = plan.build(lab()).nodes
    assert {hop.device for hop in nodes["p0t0-0"].hops} == {"h0", "h1"}
    assert {item.device for item in nodes["p0t0-0"].addresses} == {"p0t1-0", "p0t1-1"}
    assert nodes["p0t1-0"].hops == ()
    assert len(nodes["h0"].hops) == 2
