"""What two sources say about a peer's ports, and which one is believed."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from agents.mrc.peer import Peer
from agents.wire import address, ev, frame

HOLD_NS = 100


class Listener:
    """Stands where a queue pair stands, and only counts."""

    def __init__(self) -> None:
        self.heard = 0

    def peer_ports_changed(self, now: int) -> None:
        self.heard += 1


def template(value: int) -> frame.PathTemplate:
    return frame.PathTemplate(src=address.host_address(0), dst=address.host_address(1), usids=(1 << 11,), ev=value)


def a_peer() -> tuple[Peer, Listener]:
    peer = Peer(1, address.host_address(1), planes=4, uplinks=2, make_template=template, rng=Random(1), hold_ns=HOLD_NS)
    listener = Listener()
    peer.queue_pairs.append(cast(Any, listener))
    return peer, listener


def test_an_update_counts_at_once_and_once() -> None:
    peer, listener = a_peer()
    for _ in range(3):
        peer.updated(7, 0b10, now=0)
    assert peer.ports_down == 0b10 and listener.heard == 1


@pytest.mark.parametrize("newest", [8, 0x8001, 3])
def test_an_older_update_does_not(newest: int) -> None:
    peer, _ = a_peer()
    peer.updated(newest, 0b10, now=0)
    peer.updated(newest - 1 & 0xFFFF, 0, now=1)
    peer.updated(newest - 0x7000 & 0xFFFF, 0, now=1)
    assert peer.ports_down == 0b10
    peer.updated(newest + 0x7000 & 0xFFFF, 0, now=2)
    assert peer.ports_down == 0


def test_numbers_wrap() -> None:
    peer, _ = a_peer()
    peer.updated(0xFFFF, 0b1, now=0)
    peer.updated(0, 0b11, now=1)
    assert peer.ports_down == 0b11


def test_a_report_that_an_update_has_overtaken_is_not_believed() -> None:
    peer, listener = a_peer()
    peer.updated(1, 0b1, now=1000)
    peer.reported(0, now=1000 + HOLD_NS - 1)
    assert peer.ports_down == 0b1
    peer.reported(0, now=1000 + HOLD_NS)
    assert peer.ports_down == 0 and listener.heard == 2


def test_any_ev_is_on_a_plane_that_is_up_at_both_ends() -> None:
    peer, _ = a_peer()
    peer.updated(1, 0b0001, now=0)
    found = [peer.any_ev(0b0111) for _ in range(50)]
    assert {ev.plane_of(value) for value in found if value is not None} == {1, 2}
    assert all(value is not None and peer.knows(value) for value in found)
    assert peer.any_ev(0b0001) is None


def test_the_template_cache_is_bounded() -> None:
    peer, _ = a_peer()
    first = peer.template(ev.make(0, 0, 0))
    assert peer.template(ev.make(0, 0, 0)) is first
    for spare in range(1, 5000):
        peer.template(ev.make(0, 0, spare))
    assert len(peer._templates) < 5000 and peer.template(ev.make(0, 0, 0)).ev == first.ev
