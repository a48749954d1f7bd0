"""What people write for a fault's target, and the words for what is none."""

from random import Random

import pytest

from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec
from testbed.topology.targets import resolve

CLOS = clos.build(LabSpec(name="wide", planes=2, t0_groups=2, hosts_per_t0=6, t1s_per_plane=2))


def names(text: str, seed: int = 0) -> list[str]:
    return [link.name for link in resolve(CLOS, text, Random(seed)).links]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("p0t0-0:p0t1-1", ["p0t0-0:p0t1-1"]),
        ("p0t1-1:p0t0-0", ["p0t0-0:p0t1-1"]),
        ("link h0:p1t0-0", ["h0:p1t0-0"]),
        ("links p0t0-0:p0t1-1 h0:p1t0-0", ["p0t0-0:p0t1-1", "h0:p1t0-0"]),
        ("links tier=t0-t1 plane=1 node=p1t0-1", ["p1t0-1:p1t1-0", "p1t0-1:p1t1-1"]),
        ("host h3", ["h3:p0t0-0", "h3:p1t0-0"]),
        ("host h3 plane 1", ["h3:p1t0-0"]),
        ("host h3 ev 0x1", ["h3:p0t0-0"]),
        ("host h3 plane 1 t1 1", ["h3:p1t0-0"]),
        ("switch p1t1-0", ["p1t0-0:p1t1-0", "p1t0-1:p1t1-0"]),
        ("transceiver p0t0-0 0", [f"h{host}:p0t0-0" for host in range(4)]),
        ("transceiver p0t0-0 1", ["h4:p0t0-0", "h5:p0t0-0"]),
        ("transceiver h7", ["h7:p0t0-1", "h7:p1t0-1"]),
    ],
)
def test_it_names_these_links(text: str, links: list[str]) -> None:
    assert names(text) == links


def test_a_plane_has_all_its_links() -> None:
    assert names("plane 1") == [link.name for link in CLOS.links.values() if link.plane == 1]


def test_the_text_of_a_target_names_the_same_again_without_chance() -> None:
    texts = ["links tier=nic-t0 pick=3", "switches tier=t1 pick=2", "host h1 ev 1", "transceiver h2", "host h3 plane 1"]
    for text in [*texts, "host h3 plane 1 t1 0"]:
        first = resolve(CLOS, text, Random(5))
        assert resolve(CLOS, first.text, Random(6)).links == first.links


def test_pick_draws_by_the_seed_and_never_the_same_twice() -> None:
    drawn = [tuple(names("links tier=nic-t0 pick=3", seed)) for seed in range(20)]
    assert all(len(set(links)) == 3 for links in drawn)
    assert len(set(drawn)) > 10
    assert names("links tier=nic-t0 pick=3", 7) == list(drawn[7])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p0t0-0:p0t1-7", "no link 'p0t0-0:p0t1-7'; did you mean 'p0t0-0:p0t1-"),
        ("h3", "'h3' alone is no target; write 'host h3'"),
        ("p0t0-1", "'p0t0-1' alone is no target; write 'switch p0t0-1'"),
        ("swich p0t1-0", "did you mean 'switch'?"),
        ("switch p0t1-9", "did you mean 'p0t1-"),
        ("switch h0", "no switch 'h0'"),
        ("host h99", "not a host"),
        ("host h3 plane 2", "no plane '2'; there are 0 to 1"),
        ("host h3 plain 1", "write 'host h0', with 'plane 0', 'plane 0 t1 0' or 'ev 0xc000' behind it"),
        ("host h3 plane 0 t1", "is no target"),
        ("host h3 plane 0 t1 2", "no T1 '2'"),
        ("host h3 ev 0x4000c000", "names plane 2"),
        ("host h3 ev nine", "'nine' is no EV"),
        ("links tier=t0-t2", "links have no tier 't0-t2'; did you mean 't0-t1'?"),
        ("links teir=t0-t1", "did you mean 'tier'?"),
        ("links tier=nic-t0 node=p0t1-0", "no links fit"),
        ("links tier=t0-t1 pick=9", "only 8 links fit; write pick=8 or less"),
        ("links pick=0", "picks nothing"),
        (f"links pick={'9' * 5000}", "picks nothing"),
        (f"plane {'9' * 5000}", "no plane"),
        ("transceiver p0t1-0 0", "is a T1"),
        ("transceiver p0t0-0 2", "no transceiver of p0t0-0 '2'"),
        ("transceiver p0t0-0", "write it like 'transceiver p0t0-0 0'"),
        ("plane one", "no plane 'one'"),
        ("", "a target is empty"),
    ],
)
def test_what_is_none_and_what_would_be(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(CLOS, text, Random(0))
    assert says in str(caught.value)
