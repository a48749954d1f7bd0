"""EV profiles: their states, what a controller may change when, and what queue pairs make of them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from agents.mrc.ev_set import path_of
from agents.mrc.ev_state import State
from agents.mrc.profile import EvEvent, EvMode, EvProfile, FormatField, ProfileError, ProfileState
from agents.wire import ev as ev_format
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import ONE_WAY_NS, ScriptedPair

OFFLINE, ONLINE, INIT = ProfileState.OFFLINE, ProfileState.ONLINE, ProfileState.INIT


def profile(planes: int = 2, uplinks: int = 4) -> EvProfile:
    return EvProfile(7, planes, uplinks, Random(1))


def generated(count: int = 8, **settings: Any) -> EvProfile:
    made = profile()
    made.modify(state=OFFLINE, mode=EvMode.GENERATED, count=count, **settings)
    made.modify(state=ONLINE)
    return made


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        call(**arguments)
    return caught.value.code


class TestStates:
    def test_the_way_there_and_back(self) -> None:
        made = generated()
        made.modify(state=OFFLINE)
        made.modify(state=INIT)
        assert made.mode is None and made.evs() == []

    def test_back_to_init_with_other_settings(self) -> None:
        made = generated()
        made.modify(state=OFFLINE)
        assert code_of(made.modify, state=INIT, count=4) == "EINVAL"
        assert (made.state, made.count) == (OFFLINE, 8)

    def test_no_short_cut(self) -> None:
        assert code_of(profile().modify, state=ONLINE, mode=EvMode.ECMP, count=2) == "EINVAL"

    def test_online_it_cannot_be_changed(self) -> None:
        made = generated()
        for change in ({"count": 4}, {"mode": EvMode.ECMP}, {"min_active": 2}, {"event_mask": EvEvent.NONE}):
            assert code_of(made.modify, **change) == "EINVAL"
        assert (made.count, made.min_active, made.mode) == (8, 1, EvMode.GENERATED)

    def test_not_while_queue_pairs_use_it(self) -> None:
        pair, made = with_profile(8)
        assert code_of(made.modify, state=OFFLINE) == "EBUSY"
        pair.nics[0].destroy_qp(max(pair.nics[0].queue_pairs))
        made.modify(state=OFFLINE)

    @pytest.mark.parametrize(
        "change",
        [
            {"count": 8},
            {"mode": EvMode.GENERATED},
            {"mode": EvMode.GENERATED, "count": 7},
            {"mode": EvMode.GENERATED, "count": 0},
            {"mode": EvMode.GENERATED, "count": 258},
            {"mode": EvMode.GENERATED, "count": 8, "min_active": 9},
            {"mode": EvMode.GENERATED, "count": 8, "min_active": 0},
            {"mode": EvMode.GENERATED, "count": 8, "fields": (FormatField(width=3, max_val=1),)},
        ],
    )
    def test_what_makes_no_sense_is_refused_and_changes_nothing(self, change: dict[str, Any]) -> None:
        made = profile()
        assert code_of(made.modify, state=OFFLINE, **change) == "EINVAL"
        assert made.state is INIT and made.mode is None

    @pytest.mark.parametrize("change", [{"mode": EvMode.EXPLICIT, "count": 1 << 40}, {"count": 4}, {"min_active": 2}])
    def test_nor_is_it_taken_in_the_state_init(self, change: dict[str, Any]) -> None:
        made = profile()
        assert code_of(made.modify, **change) == "EINVAL"
        assert (made.mode, made.count, made.min_active) == (None, 0, 1)

    def test_too_many_combinations_of_fields(self) -> None:
        fields = (FormatField(width=3, max_val=1), FormatField(width=29, max_val=1 << 28))
        for state in (OFFLINE, INIT):
            assert code_of(profile().modify, state=state, mode=EvMode.GENERATED, count=8, fields=fields) == "E2BIG"


class TestGenerated:
    def test_as_many_from_each_plane_and_no_path_twice_while_there_are_others(self) -> None:
        evs = [ev for ev, _ in generated(8).evs()]
        assert len(set(map(path_of, evs))) == 8
        assert Counter(map(ev_format.plane_of, evs)) == {0: 4, 1: 4}

    def test_within_the_bounds_of_the_fields(self) -> None:
        fields = (
            FormatField(width=3, max_val=1),
            FormatField(width=8, max_val=1, init_val=2, mask=1),  # 2 or 3
            FormatField(width=21, max_val=0),
        )
        evs = [ev for ev, _ in generated(4, fields=fields).evs()]
        assert {ev_format.uplink_of(ev) for ev in evs} == {2, 3}

    def test_fields_that_leave_a_plane_without_a_path(self) -> None:
        fields = (FormatField(width=3, max_val=0), FormatField(width=8, max_val=3), FormatField(width=21, max_val=0))
        assert code_of(profile().modify, state=OFFLINE, mode=EvMode.GENERATED, count=8, fields=fields) == "EINVAL"

    def test_a_field_that_is_too_narrow(self) -> None:
        assert code_of(FormatField, width=3, max_val=8) == "EINVAL"


class TestExplicit:
    def offline(self) -> EvProfile:
        made = profile()
        made.modify(state=OFFLINE, mode=EvMode.EXPLICIT, count=4)
        return made

    def test_every_place_has_to_be_filled(self) -> None:
        made = self.offline()
        assert code_of(made.modify, state=ONLINE) == "EINVAL"
        evs = [ev_format.make(plane, uplink) for plane in range(2) for uplink in range(2)]
        assert all(result.code == "" for result in made.replace([(None, ev) for ev in evs]))
        made.modify(state=ONLINE)
        assert [ev for ev, _ in made.evs()] == evs

    def test_entry_by_entry(self) -> None:
        made = self.offline()
        good, other = ev_format.make(0, 1), ev_format.make(1, 3)
        entries = [
            (None, good),
            (None, ev_format.make(2, 0)),  # no such plane
            (None, ev_format.make(0, 4)),  # no such uplink
            (None, good),  # is there already
            (other, ev_format.make(1, 1)),  # is not there
            (good, other),
        ]
        assert [result.code for result in made.replace(entries)] == ["", "EINVAL", "EINVAL", "EINVAL", "ENOENT", ""]
        assert [ev for ev, _ in made.evs()] == [other]

    def test_planes_have_to_be_equally_loaded(self) -> None:
        made = self.offline()
        made.replace([(None, ev_format.make(plane, uplink)) for plane, uplink in ((0, 0), (0, 1), (0, 2), (1, 0))])
        assert code_of(made.modify, state=ONLINE) == "EINVAL"

    def test_not_online_and_not_in_other_modes(self) -> None:
        assert code_of(generated().replace, entries=[]) == "EINVAL"


def with_profile(count: int, **settings: Any) -> tuple[ScriptedPair, EvProfile]:
    """A pair with queue pairs of which the sender's has a profile."""
    pair = ScriptedPair(planes=2, t1s=4)
    made = pair.nics[0].create_ev_profile(7)
    made.modify(state=OFFLINE, mode=EvMode.GENERATED, count=count, **settings)
    made.modify(state=ONLINE)
    options = pair.qps[0].config
    near = pair.nics[0].create_qp(1, options=options, ev_profile=made)
    far = pair.nics[1].create_qp(0, options=options)
    near.connect(far.qpn, far.start_psn)
    far.connect(near.qpn, near.start_psn)
    pair.qps = [near, far]
    return pair, made


def transfer(pair: ScriptedPair, packets: int = 64) -> Counter[int]:
    """EVs that its WRITE packets went over."""
    before = len(pair.sent(WriteBody))
    size = packets * 4096
    region = pair.nics[1].register_memory(size)
    pair.post(bytes(size), region)
    pair.run()
    assert pair.qps[0].idle
    return Counter(packet.ev for packet in pair.sent(WriteBody)[before:])


class TestQueuePairs:
    def test_use_the_evs_of_the_profile_and_no_others(self) -> None:
        pair, made = with_profile(4)
        assert set(transfer(pair)) == {ev for ev, _ in made.evs()}

    def test_only_when_it_is_online(self) -> None:
        pair = ScriptedPair(planes=2)
        made = pair.nics[0].create_ev_profile(1)
        with pytest.raises(ProfileError, match="INIT, not ONLINE"):
            pair.nics[0].create_qp(1, ev_profile=made)
        assert len(pair.nics[0].queue_pairs) == 1

    def test_denied_evs_leave_all_queue_pairs_at_once_and_new_ones_too(self) -> None:
        pair, made = with_profile(8)
        denied = [ev for ev, _ in made.evs()][:2]
        results = made.set_state([*denied, 5], State.DENIED, 0)
        assert [result.code for result in results] == ["", "", "ENOENT"]
        assert not set(denied) & set(transfer(pair))
        assert dict(made.evs())[denied[0]] == "DENIED"
        late = pair.nics[0].create_qp(1, ev_profile=made)
        assert late.ev_counts() == {"GOOD": 6, "DENIED": 2}
        made.set_state(denied, State.GOOD, pair.now)
        assert set(denied) <= set(transfer(pair))

    def test_a_controller_makes_nothing_assumed_bad(self) -> None:
        assert code_of(generated().set_state, evs=[], state=State.ASSUMED_BAD, now=0) == "EINVAL"

    def test_events_of_evs_that_go_and_come_back(self) -> None:
        pair, made = with_profile(8)
        lose_a_path(pair, made)
        states = [event.state for event in made.poll_events(100)]
        assert states == ["ASSUMED_BAD", "GOOD"] and made.poll_events(100) == []

    def test_only_those_of_the_mask(self) -> None:
        pair, made = with_profile(8, event_mask=EvEvent.GOOD)
        lose_a_path(pair, made)
        assert [event.state for event in made.poll_events(100)] == ["GOOD"]

    def test_events_that_found_the_queue_full_are_counted_by_the_next_one(self) -> None:
        made = generated()
        for number in range(1030):
            made.changed(1, number, State.GOOD)
        assert len(made.poll_events(2000)) == 1024
        made.changed(1, 1, State.GOOD)
        made.changed(1, 2, State.GOOD)
        assert [event.drop_count for event in made.poll_events(2)] == [6, 0]

    def test_min_active_is_the_profiles(self) -> None:
        pair, _ = with_profile(8, min_active=7)
        dead = {path_of(ev_format.make(0, uplink)) for uplink in range(3)}
        pair.rule = lambda host, packet: [] if path_of(packet.ev) in dead else [ONE_WAY_NS]
        transfer(pair)
        assert pair.qps[0].ev_counts()["ASSUMED_BAD"] == 1


def lose_a_path(pair: ScriptedPair, made: EvProfile) -> None:
    """One packet is lost, so that its EV is retired, and probed back."""
    lost: list[int] = []

    def rule(host: int, packet: Packet) -> list[int]:
        if isinstance(packet.body, WriteBody) and not lost:
            lost.append(packet.ev)
            return []
        return [ONE_WAY_NS]

    pair.rule = rule
    transfer(pair)
    assert ("ASSUMED_BAD" in dict(made.evs()).values()) is False


class TestEcmp:
    def test_evs_are_entropy_where_the_fabric_hashes(self) -> None:
        made = profile(planes=2, uplinks=256)
        made.modify(state=OFFLINE, mode=EvMode.ECMP, count=128)
        made.modify(state=ONLINE)
        values, turns = made.choose(256)
        assert turns == 64 and [len(plane) for plane in values] == [256, 256]
        assert len({ev_format.source_port(ev) for plane in values for ev in plane}) > 400
