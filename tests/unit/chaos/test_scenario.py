"""Scenario files: what they say, and the words for what they must not say."""

from pathlib import Path

import pytest

from testbed.chaos import check
from testbed.chaos.expectations import EXPECTATIONS, Limit
from testbed.chaos.scenario import load_scenario, schema
from testbed.topology import clos, library
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from testbed.topology.sizes import payload_share
from tests.unit.chaos import scenarios


def refusal(folder: Path, *changes: tuple[str, str], overrides: tuple[str, ...] = ()) -> str:
    """What loading or checking the changed scenario is refused with, without the folder's name."""
    with pytest.raises(InputError) as caught:
        check.check(scenarios.load(folder, *changes, overrides=overrides), scenarios.small_lab())
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{folder}/", "")


def test_quantities_become_numbers(tmp_path: Path) -> None:
    scenario = scenarios.load(tmp_path)
    assert scenario.name == "case"
    assert (scenario.duration, scenario.warmup, scenario.seed) == (10_000_000_000, 1_000_000_000, 1)
    assert (scenario.faults[0].at, scenario.faults[0].for_) == (3_000_000_000, 1_000_000_000)
    assert scenario.limits == [
        Limit("bytes_wrong", 0),
        Limit("min_goodput_fraction", 0.95),
        Limit("rerouted_within", 100_000_000),
    ]


def test_the_scenarios_that_come_with_it_fit_their_labs() -> None:
    for name in library.names("scenarios"):
        scenario = load_scenario(name)
        check.check(scenario, clos.build(load_lab(scenario.lab)))
        assert scenario.limits, name


def test_across_pairs_every_host_with_the_same_place_in_the_next_rack(tmp_path: Path) -> None:
    flows = [flow for _, flow in check.flows(scenarios.load(tmp_path), scenarios.small_lab())]
    assert [flow.name for flow in flows] == ["h0>h2", "h1>h3", "h2>h0", "h3>h1"]
    assert flows[0].offered_bps == pytest.approx(0.7 * 2 * 20e6 * payload_share())
    assert not flows[0].full


def test_pairs_can_be_listed_and_load_can_be_full(tmp_path: Path) -> None:
    scenario = scenarios.load(tmp_path, ("across", "[[h0, h1], [h3, h0]]"), ("70%", "full"))
    flows = [flow for _, flow in check.flows(scenario, scenarios.small_lab())]
    assert [flow.name for flow in flows] == ["h0>h1", "h3>h0"]
    assert all(flow.full for flow in flows)


def test_a_permutation_is_drawn_from_the_seed(tmp_path: Path) -> None:
    scenario = scenarios.load(tmp_path, ("across", "permutation"))

    def names(seed: int | None) -> list[str]:
        return [flow.name for _, flow in check.flows(scenario, scenarios.small_lab(), seed)]

    assert names(None) == names(scenario.seed)
    assert len({tuple(names(seed)) for seed in range(20)}) > 3
    for seed in range(20):
        ends = [name.split(">") for name in names(seed)]
        assert sorted(src for src, _ in ends) == sorted(dst for _, dst in ends) == ["h0", "h1", "h2", "h3"]


def test_an_incast_and_its_victim(tmp_path: Path) -> None:
    lab = scenarios.small_lab()
    for pairs, name in (("incast", "h2>h0"), ("victim", "h3>h1")):
        scenario = scenarios.load(tmp_path, ("across", f"{pairs}\n    target: h0\n    senders: 1"))
        check.check(scenario, lab)
        assert [flow.name for _, flow in check.flows(scenario, lab)] == [name]


def test_transport_overrides_leave_the_labs_other_settings_alone(tmp_path: Path) -> None:
    lab = scenarios.small_lab().spec
    scenario = scenarios.load(tmp_path, overrides=("transport.retire_evs=false",))
    assert scenario.transport_of(lab) == lab.transport.model_copy(update={"retire_evs": False})


def test_an_override_reaches_into_lists(tmp_path: Path) -> None:
    scenario = scenarios.load(tmp_path, overrides=("faults.0.at=4 s", "expect.qp_errors=0"))
    assert scenario.faults[0].at == 4_000_000_000
    assert Limit("qp_errors", 0) in scenario.limits


def test_the_schema_documents_every_expectation() -> None:
    properties = schema()["$defs"]["Expect"]["properties"]
    assert {name: properties[name]["description"] for name in properties} == {
        name: row.doc for name, row in EXPECTATIONS.items()
    }
    assert "for" in schema()["$defs"]["FaultEntry"]["properties"]


REFUSED = {
    "missing link": (
        ("p0t0-0:p0t1-1", "p0t0-0:p0t1-7"),
        "case.yaml:11: lab small has no link 'p0t0-0:p0t1-7'; did you mean 'p0t0-0:p0t1-",
    ),
    "unknown kind": (("link-down", "link-dwon"), "case.yaml:10: no fault kind 'link-dwon'; did you mean 'link-down'?"),
    "past the end": (("at: 3 s", "at: 12 s"), "case.yaml:13: the fault would begin at 12 s, but the run ends at 10 s"),
    "last turn past the end": (
        ("for: 1 s", "for: 1 s\n    every: 3 s\n    count: 4"),
        "case.yaml:16: one of the 4 faults would begin at 12 s, but the run ends at 10 s; lower count",
    ),
    "overlap": (
        ("expect:", '  - {kind: link-down, target: "p0t0-0:p0t1-1", end: far, at: 3500 ms}\nexpect:'),
        "case.yaml:15: at 3.5 s p0t0-0:p0t1-1 has this link-down already, by the fault of 3 s; "
        "end the first one earlier, or leave one out",
    ),
    "two rates at once": (
        (
            "expect:",
            '  - {kind: rate-drop, target: "h0:p0t0-0", at: 2 s, rate: 50%}\n'
            '  - {kind: rate-drop, target: "plane 0", at: 4 s}\nexpect:',
        ),
        "case.yaml:16: at 4 s rate-drop would set rate_bps of port eth0 at h0 to 5000000, which rate-drop of 2 s holds "
        "otherwise; end the first one earlier, or leave one out",
    ),
    "what a kind cannot happen to": (
        ("kind: link-down", "kind: t1-reboot"),
        "case.yaml:11: t1-reboot happens to T1 switches, not to 'p0t0-0:p0t1-1'; write it like 'switch p0t1-2'",
    ),
    "an option of another kind": (
        ("at: 3 s", "at: 3 s\n    loss: 1%"),
        "case.yaml:14: link-down takes no loss; leave it out",
    ),
    "no end to choose": (
        ("kind: link-down\n    target: p0t0-0:p0t1-1", "kind: plane-down\n    target: plane 1"),
        "case.yaml:12: plane-down has no end to choose; leave end out",
    ),
    "nothing says when": (
        ("    at: 3 s\n", ""),
        "case.yaml:10: nothing says when the fault begins; add at, like 'at: 3 s'",
    ),
    "a negative time": (("at: 3 s", "at: -3 s"), "case.yaml:13: 'faults[0].at': '-3 s' is not a duration"),
    "a time without unit": (("at: 3 s", "at: 10"), "case.yaml:13: 'faults[0].at': 10 is not a duration"),
    "more than all": (
        ("kind: link-down", "loss: 101%\n    kind: loss"),
        "case.yaml:10: 'faults[0].loss': '101%' is not a fraction",
    ),
    "mtbf alone": (("for: 1 s", "mtbf: 1 s"), "case.yaml:14: mtbf is given without mttr; add mttr"),
    "far too many by chance": (
        ("for: 1 s", "mtbf: 1 us\n    mttr: 1 us"),
        "case.yaml:14: that makes about 3.5e+06 faults; an entry may have 10,000; make mtbf longer",
    ),
    "mtbf with for": (
        ("for: 1 s", "for: 1 s\n    mtbf: 1 s\n    mttr: 1 s"),
        "case.yaml:14: for says when, and so do mtbf and mttr; leave for out",
    ),
    "an expectation that flows cannot have": (
        ("load: 70%", "load: 70%\n    expect:\n      min_goodput_of_oracle: 90%"),
        "case.yaml:10: unknown key 'min_goodput_of_oracle'; did you mean 'min_goodput_fraction'?",
    ),
    "turns that overlap": (
        ("for: 1 s", "for: 1 s\n    every: 500 ms\n    count: 2"),
        "case.yaml:14: the next one begins before this one ends; make for less than every",
    ),
    "count without every": (
        ("for: 1 s", "for: 1 s\n    count: 2"),
        "case.yaml:15: count is 2, but nothing says how often; add every",
    ),
    "a pattern that is none": (
        ("across", "acros"),
        "case.yaml:6: 'workloads[0].pairs': 'acros' names no pairs of hosts; did you mean 'across'?",
    ),
    "no pairs": (
        ("across", "[]"),
        "case.yaml:6: 'workloads[0].pairs': [] names no pairs of hosts; write across, permutation, incast, victim",
    ),
    "half a pair": (("across", "[[h0]]"), "case.yaml:6: 'workloads[0].pairs': [['h0']] names no pairs of hosts; write"),
    "a limit that nothing is beyond": (
        ("bytes_wrong: 0", "unused_within_round_trips: .inf"),
        "case.yaml:16: 'expect.unused_within_round_trips' is inf, not a finite number",
    ),
    "a name that is a path": (
        ("lab: small", "lab: small\nname: ../x"),
        "case.yaml:2: 'name' is '../x', not such a name",
    ),
    "a dip with nothing before it": (
        ("at: 3 s", "at: 1 s\n    expect: {max_dip: 5%}"),
        "case.yaml:13: max_dip compares with the goodput before the fault, and all of that is warm-up; let it",
    ),
    "missing host": (("across", "[[h0, h9]]"), "case.yaml:6: 'h9' is not a host of lab small; hosts are h0 to h3"),
    "to itself": (("across", "[[h0, h0]]"), "case.yaml:6: 'h0' would send to itself; name two hosts"),
    "incast of too many": (
        ("across", "incast\n    target: h0\n    senders: 2"),
        "case.yaml:6: an incast of 2 senders with a victim needs 3 hosts in other racks and one more in the target's; "
        "there are 2 and 1; take a larger lab, or fewer senders",
    ),
    "incast at nobody": (
        ("across", "incast\n    target: h9\n    senders: 1"),
        "case.yaml:6: 'h9' is not a host of lab small; hosts are h0 to h3",
    ),
    "incast of nobody": (("across", "incast\n    target: h0"), "case.yaml:6: 'incast' needs senders; add target: h0"),
    "senders of no incast": (
        ("across", "across\n    senders: 2"),
        "case.yaml:7: senders is of an incast or its victim; leave it out",
    ),
    "twice": (("across", "[[h0, h1], [h0, h1]]"), "case.yaml:6: h0 to h1 is here twice; leave one out"),
    "no load": (
        ("70%", "0%"),
        "case.yaml:8: 'workloads[0].load': a load of 0 sends nothing; write 'full' or a fraction like '70%'",
    ),
    "unknown expectation": (
        ("bytes_wrong", "bytes_worng"),
        "case.yaml:16: unknown key 'bytes_worng'; did you mean 'bytes_wrong'?",
    ),
    "limit of the wrong kind": (
        ("rerouted_within: 100 ms", "rerouted_within: 5"),
        "case.yaml:18: 'expect.rerouted_within': 5 is not a duration; write it like '10 ms'",
    ),
    "more EVs than paths": (
        ("expect:", "transport: {ev_min_active: 99}\nexpect:"),
        "case.yaml:15: 99 EVs cannot stay active: there are ",
    ),
    "a message too large": (
        ("message: 32 KB", "message: 2 MB"),
        "case.yaml:7: 'workloads[0].message': 2 MB is more than a message can have; write 1 MB or less",
    ),
    "only warm-up": (
        ("warmup: 1 s", "warmup: 10 s"),
        "case.yaml:3: the warm-up is not shorter than the run; make duration longer",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_file_line_and_what_would_be_right(case: str, tmp_path: Path) -> None:
    change, message = REFUSED[case]
    assert refusal(tmp_path, change).startswith(message)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    lines = refusal(tmp_path, ("p0t1-1", "p0t1-9"), ("at: 3 s", "at: 30 s"), ("across", "[[h0, h0]]")).splitlines()
    assert [line.split(":")[1] for line in lines] == ["6", "11", "13"]


def test_what_an_override_broke_names_the_override(tmp_path: Path) -> None:
    text = refusal(tmp_path, overrides=("faults.0.target=p9t0-0:p9t1-1",))
    assert text.startswith("faults.0.target=p9t0-0:p9t1-1: lab small has no link")


def test_limits_are_of_the_run_of_faults_and_of_flows(tmp_path: Path) -> None:
    scenario = scenarios.load(
        tmp_path,
        ("    for: 1 s\n", "    for: 1 s\n    expect: {packets_lost_per_qp: 5}\n"),
        ("    load: 70%\n", "    load: 70%\n    expect: {qp_errors: 0}\n"),
    )
    assert Limit("packets_lost_per_qp", 5, fault=0) in scenario.limits
    assert Limit("qp_errors", 0, workload=0) in scenario.limits


def test_across_needs_two_racks(tmp_path: Path) -> None:
    lab = clos.build(scenarios.small_lab().spec.model_copy(update={"t0_groups": 1}))
    with pytest.raises(InputError, match="'across' needs two T0 groups; give pairs as a list"):
        check.check(scenarios.load(tmp_path, ("p0t0-0", "p0t0-0")), lab)


def test_a_lab_file_is_looked_for_beside_the_scenario_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios.load(tmp_path)
    beside, elsewhere = tmp_path / "mine.yaml", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.yaml").touch()
    case = tmp_path / "case.yaml"
    case.write_text("lab: mine.yaml\n" + case.read_text().replace("lab: ", "# lab: "))
    monkeypatch.chdir(elsewhere)
    assert load_scenario(case).lab == "mine.yaml"  # as the current folder has it
    beside.touch()
    assert load_scenario(case).lab == str(beside)
    (tmp_path / "tiny").touch()
    case.write_text(case.read_text().replace("mine.yaml", "tiny"))
    assert load_scenario(case).lab == "tiny"
