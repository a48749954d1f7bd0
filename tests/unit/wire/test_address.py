"""The address plan: every uSID splits again, no two things share one, and limits are refused."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire import address
from agents.wire.address import Kind

places = st.tuples(st.integers(0, 7), st.sampled_from(Kind), st.integers(0, 255))


@given(places)
def test_a_usid_splits_into_what_it_was_made_of(place: tuple[int, Kind, int]) -> None:
    assert address.split_usid(address.usid(*place)) == place
    assert address.usid(*place) != 0


@given(places, places)
def test_different_places_have_different_usids(one: tuple[int, Kind, int], other: tuple[int, Kind, int]) -> None:
    assert (address.usid(*one) == address.usid(*other)) == (one == other)


@given(st.lists(st.integers(1, 0xFFFF), max_size=6))
def test_an_address_holds_its_usids(usids: list[int]) -> None:
    assert address.address_usids(address.sid_address(address.DEFAULT_BLOCK, *usids)) == tuple(usids)


def test_the_text_form_is_what_the_kernel_shows() -> None:
    usids = address.path_usids(3, 0, 2, 1, 5)
    text = ipaddress.IPv6Address(address.sid_address(address.DEFAULT_BLOCK, *usids))
    assert str(text) == "fcbb:bb00:6800:7002:6801:7805::"
    assert str(ipaddress.IPv6Address(address.host_address(7))) == "fd6d:7263::8"


def test_inside_a_rack_the_path_has_no_t1() -> None:
    assert address.path_usids(0, 4, None, 4, 1) == (
        address.usid(0, Kind.T0, 4),
        address.usid(0, Kind.DOWNLINK, 1),
    )
    with pytest.raises(ValueError, match="needs a T1"):
        address.path_usids(0, 4, None, 5, 1)


@pytest.mark.parametrize(
    "place", [(8, Kind.T0, 0), (-1, Kind.T0, 0), (0, Kind.T0, 512), (0, Kind.T1, 256), (0, Kind.DOWNLINK, 256)]
)
def test_no_room(place: tuple[int, Kind, int]) -> None:
    with pytest.raises(ValueError, match="is not in"):
        address.usid(*place)


def test_a_seventh_usid_does_not_fit() -> None:
    with pytest.raises(ValueError, match="7 uSIDs"):
        address.sid_address(address.DEFAULT_BLOCK, *range(1, 8))


@given(st.integers(0, address.MAX_HOSTS - 1))
def test_a_host_is_known_by_its_address(host: int) -> None:
    assert address.host_number(address.host_address(host)) == host


def test_host_addresses_go_as_far_as_there_are_downlinks() -> None:
    assert str(ipaddress.IPv6Address(address.host_address(131_071))) == "fd6d:7263::2:0"
    for host in (-1, 131_072):
        with pytest.raises(ValueError, match="is not in"):
            address.host_address(host)


@pytest.mark.parametrize("text", ["fd6d:7263::", "fd6d:7263::2:1", "fd6d:7264::1", "fcbb:bb00::1"])
def test_an_address_that_is_no_hosts(text: str) -> None:
    assert address.host_number(ipaddress.IPv6Address(text).packed) is None
