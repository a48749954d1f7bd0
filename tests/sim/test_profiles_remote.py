"""EV and CC profiles over the agents' operations, in virtual time: what goes over the control socket of a lab."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.sim.agents import RefusedError
from testbed.sim.lab import SimLab
from testbed.topology.clos import t0_name, t1_name
from testbed.topology.labspec import LabSpec

MS = 10**6
PLANES, T1S = 2, 4


class Controller:
    """Asks h0 of a lab of two hosts."""

    def __init__(self) -> None:
        self.lab = SimLab(LabSpec(name="sim", planes=PLANES, t0_groups=2, hosts_per_t0=1, t1s_per_plane=T1S), seed=1)

    def ask(self, operation: str, host: str = "h0", **fields: Any) -> dict[str, Any]:
        return self.lab.agents.call_each(operation, {host: fields})[host]

    def profile(self, **settings: Any) -> int:
        """An EV profile that is ONLINE."""
        number: int = self.ask("ev-profile-create")["profile"]
        for state in ("OFFLINE", "ONLINE"):
            self.ask("ev-profile-modify", profile=number, state=state, **(settings if state == "OFFLINE" else {}))
        return number

    def send(self, **profiles: Any) -> int:
        """A transfer from h0 to h1 without end; the number of its queue pair."""
        near = self.ask("qp-create", peer=1, **profiles)
        far = self.ask("qp-create", "h1", peer=0, region_bytes=1 << 20)
        self.ask("qp-connect", qpn=near["qpn"], remote_qpn=far["qpn"], remote_psn=far["psn"])
        self.ask("qp-connect", "h1", qpn=far["qpn"], remote_qpn=near["qpn"], remote_psn=near["psn"])
        work = {"kind": "write_bw", "message_bytes": 32 << 10, "seed": 1}
        self.ask("workload-start", "h1", role="receive", qpn=far["qpn"], **work)
        memory = {name: far[name] for name in ("address", "rkey", "size")}
        self.ask("workload-start", role="send", qpn=near["qpn"], **work, **memory)
        qpn: int = near["qpn"]
        return qpn


def test_a_queue_pair_sends_over_the_evs_of_its_profile() -> None:
    controller = Controller()
    number = controller.profile(mode="generated", count=4, min_active=2)
    qpn = controller.send(ev_profile=number)
    controller.lab.run(300 * MS)
    seen = controller.ask("ev-profile-query", profile=number)
    assert (seen["state"], seen["mode"], seen["count"], seen["min_active"]) == ("ONLINE", "generated", 4, 2)
    assert seen["queue_pairs"] == [qpn] and {entry["state"] for entry in seen["evs"]} == {"GOOD"}
    used = controller.ask("ev-map", qpn=qpn)["evs"]
    assert {info["ev"] for info in used} == {entry["ev"] for entry in seen["evs"]}


def test_explicit_evs_are_answered_entry_by_entry() -> None:
    controller = Controller()
    number = controller.ask("ev-profile-create")["profile"]
    controller.ask("ev-profile-modify", profile=number, state="OFFLINE", mode="explicit", count=PLANES)
    evs = [entry["ev"] for entry in controller.ask("ev-profile-query", profile=controller.profile(
        mode="generated", count=PLANES))["evs"]]  # fmt: skip
    entries = [{"new": evs[0]}, {"new": evs[0]}, {"current": 77, "new": evs[1]}, {"new": evs[1]}]
    results = controller.ask("ev-profile-replace", profile=number, entries=entries)["results"]
    assert [result["code"] for result in results] == ["", "EINVAL", "ENOENT", ""]
    controller.ask("ev-profile-modify", profile=number, state="ONLINE")
    qpn = controller.send(ev_profile=number)
    assert sorted(info["ev"] for info in controller.ask("ev-map", qpn=qpn)["evs"]) == sorted(evs)


def test_denied_evs_carry_nothing_until_they_are_allowed() -> None:
    controller = Controller()
    number = controller.profile(mode="generated", count=PLANES * T1S)
    qpn = controller.send(ev_profile=number)
    evs = [entry["ev"] for entry in controller.ask("ev-profile-query", profile=number)["evs"]]
    results = controller.ask("ev-profile-deny", profile=number, evs=[evs[0], 5], denied=True)["results"]
    assert results == [{"ev": evs[0], "code": ""}, {"ev": 5, "code": "ENOENT"}]
    states = {info["ev"]: info["state"] for info in controller.ask("ev-map", qpn=qpn)["evs"]}
    assert [ev for ev, state in states.items() if state == "DENIED"] == [evs[0]]
    assert {entry["state"] for entry in controller.ask("ev-profile-query", profile=number)["evs"]} == {"GOOD", "DENIED"}
    controller.ask("ev-profile-deny", profile=number, evs=[evs[0]], denied=False)
    assert {info["state"] for info in controller.ask("ev-map", qpn=qpn)["evs"]} == {"GOOD"}


def test_events_tell_of_an_ev_that_goes_and_comes_back() -> None:
    controller = Controller()
    number = controller.profile(mode="generated", count=PLANES * T1S, events=["ASSUMED_BAD"])
    controller.send(ev_profile=number)
    controller.lab.run(300 * MS)
    link = f"{t0_name(0, 0)}:{t1_name(0, 2)}"
    controller.lab.network.silence(link)
    controller.lab.run(300 * MS)
    (event,) = controller.ask("ev-profile-events", profile=number)["events"]
    assert (event["profile_id"], event["state"], event["drop_count"]) == (number, "ASSUMED_BAD", 0)
    controller.lab.network.unsilence(link)
    controller.lab.run(500 * MS)
    assert controller.ask("ev-profile-events", profile=number)["events"] == [], "the mask leaves GOOD out"


def test_a_cc_profile_rules_the_window_of_the_queue_pairs_that_name_it() -> None:
    controller = Controller()
    number = controller.ask("cc-profile-create")["profile"]
    small = 64 << 10
    changed = controller.ask(
        "cc-profile-modify", profile=number, state="OFFLINE", algorithm="nscc", attributes={"max_cwnd": small}
    )
    assert changed["attributes"]["max_cwnd"] == small and changed["attributes"]["gamma"] == 0.8
    with pytest.raises(RefusedError, match="OFFLINE, not ONLINE"):
        controller.send(cc_profile=number)
    controller.ask("cc-profile-modify", profile=number, state="ONLINE")
    qpn = controller.send(cc_profile=number)
    queue_pair: Any = controller.lab._agents[0].agent.connections[qpn].qp
    assert queue_pair._requester._window.window_bytes <= small
    with pytest.raises(RefusedError, match="EBUSY"):
        controller.ask("cc-profile-modify", profile=number, state="OFFLINE")
    controller.ask("qp-destroy", qpn=qpn)
    assert controller.ask("cc-profile-modify", profile=number, state="OFFLINE")["queue_pairs"] == []
    controller.ask("cc-profile-destroy", profile=number)
    with pytest.raises(RefusedError, match=f"no CC profile {number}"):
        controller.ask("cc-profile-query", profile=number)


@pytest.mark.parametrize(
    ("operation", "fields", "words"),
    [
        ("ev-profile-modify", {"state": "ONLINE"}, "does not go from INIT to ONLINE"),
        ("ev-profile-modify", {"mode": "magic"}, "no mode 'magic'"),
        ("ev-profile-modify", {"events": ["BAD"]}, "no event 'BAD'"),
        ("ev-profile-modify", {"events": [["GOOD"]]}, r"no event \['GOOD'\]"),
        ("ev-profile-modify", {"fields": [7]}, "each of fields has to be an object"),
        ("ev-profile-modify", {"fields": [{"width": 3, "max_val": 9}]}, "cannot hold"),
        ("ev-profile-query", {"profile": 9}, "no EV profile 9"),
        ("cc-profile-modify", {"algorithm": "bbr"}, "no congestion control is called 'bbr'"),
        ("cc-profile-modify", {"attributes": {"cwnd": 1}}, "no setting cwnd"),
        ("cc-profile-modify", {"attributes": {"max_cwnd": "much"}}, "max_cwnd"),
        ("qp-create", {"peer": 2}, "host 2 is not one of 0..1"),
        ("qp-create", {"peer": 1, "options": {"probe_interval_ns": 0}}, "probe_interval_ns is 0"),
        ("qp-create", {"peer": 1, "ev_profile": 9}, "no EV profile 9"),
        ("qp-create", {"peer": 1, "cc_profile": 1, "transport": "roce"}, "profiles are for MRC"),
    ],
)
def test_what_cannot_be_is_said_in_words(operation: str, fields: dict[str, Any], words: str) -> None:
    controller = Controller()
    for kind in ("ev", "cc"):
        controller.ask(f"{kind}-profile-create")
    with pytest.raises(RefusedError, match=words):
        controller.ask(operation, **({"profile": 1} if "profile-" in operation else {}) | fields)


@pytest.mark.parametrize("wrong", [{"address": (1 << 64) - 4096}, {"rkey": 1 << 32}])
def test_a_sender_is_refused_a_region_that_no_packet_can_name(wrong: dict[str, int]) -> None:
    controller = Controller()
    qpn = controller.ask("qp-create", peer=1)["qpn"]
    controller.ask("qp-connect", qpn=qpn, remote_qpn=99, remote_psn=0)
    memory = {"address": 0, "rkey": 1, "size": 1 << 20} | wrong
    work = {"kind": "write_bw", "role": "send", "message_bytes": 32 << 10, "seed": 1}
    with pytest.raises(RefusedError, match="addresses have 64 bits, keys 32"):
        controller.ask("workload-start", qpn=qpn, **work, **memory)
