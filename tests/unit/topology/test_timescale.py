"""Durations get shorter, however deep they are; everything else stays what it is."""

from testbed.chaos.scenario import FaultEntry, Scenario, Workload
from testbed.topology.labspec import LabSpec
from testbed.topology.timescale import at_real_rates, faster
from testbed.topology.transportspec import Transport


def test_every_duration_of_a_scenario_and_nothing_else() -> None:
    scenario = Scenario.model_validate(
        {
            "name": "one",
            "duration": "10 s",
            "warmup": "1 s",
            "transport": {"probe_interval": "20 ms"},
            "workloads": [{"kind": "write_bw", "message": "32 KB", "load": "70%"}],
            "faults": [
                {
                    "kind": "link-down",
                    "target": "p0t0-0:p0t1-1",
                    "at": "2 s",
                    "for": "50 ms",
                    "every": "1 s",
                    "count": 3,
                }
            ],
            "expect": {"bytes_wrong": 3, "rerouted_within": "250 ms", "min_goodput_fraction": "95%"},
        }
    )
    quick = faster(scenario, 1000)
    assert (quick.duration, quick.warmup) == (10_000_000, 1_000_000)
    assert quick.transport.probe_interval == 20_000
    (fault,) = quick.faults
    assert (fault.at, fault.for_, fault.every, fault.count) == (2_000_000, 50_000, 1_000_000, 3)
    limits = {limit.name: limit.limit for limit in quick.limits}
    assert limits == {"bytes_wrong": 3, "rerouted_within": 250_000, "min_goodput_fraction": 0.95}
    assert quick.workloads == scenario.workloads
    assert isinstance(quick.workloads[0], Workload) and isinstance(fault, FaultEntry)


def test_what_a_scenario_overrides_stays_what_it_overrides() -> None:
    scenario = Scenario.model_validate(
        {"name": "one", "duration": "10 s", "transport": {"retire_evs": False}, "workloads": [{"kind": "write_bw"}]}
    )
    lab = at_real_rates(
        LabSpec(name="l", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2, transport=Transport(ev_min_active=2))
    )
    merged = faster(scenario, 5000).transport_of(lab)
    assert (merged.retire_evs, merged.ev_min_active, merged.probe_interval) == (False, 2, 10_000)


def test_at_real_rates_there_is_no_dilation() -> None:
    lab = LabSpec(name="l", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2)
    real = at_real_rates(lab)
    assert (lab.time_dilation, real.time_dilation) == (5000, 1)
    assert (real.rates.host, real.rates.fabric) == (100 * 10**9, 100 * 10**9)
    assert real.queue == lab.queue
