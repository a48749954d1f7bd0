"""Counters of the machine, from texts of /proc and from the real one."""

from testbed.measure import machine
from testbed.measure.machine import Reading

STAT = """cpu  100 5 20 800 50 3 2 1 7 0
cpu0 100 5 20 800 50 3 2 1 7 0
intr 12345
"""
SOFTNET = """00000010 00000002 00000000 00000000
00000010 0000000a 00000000 00000000
"""


def test_idle_and_waiting_time_is_not_busy_and_guest_time_not_counted_twice() -> None:
    assert machine.parse_cpu(STAT) == (131, 981)


def test_drops_of_all_cpus_add_up_in_hex() -> None:
    assert machine.parse_softnet_drops(SOFTNET) == 12


def test_the_fraction_is_of_the_time_between_two_readings() -> None:
    early, late = Reading(100, 1000, 5), Reading(250, 1200, 9)
    assert late.cpu_fraction_since(early) == 0.75
    assert late.drops_since(early) == 4
    assert early.cpu_fraction_since(early) == 0


def test_this_machine_can_be_read_and_its_clock_of_ticks_moves() -> None:
    first = machine.read()
    assert first.total_ticks > first.busy_ticks > 0
    while (now := machine.read()).total_ticks == first.total_ticks:  # a tick is 10 ms
        pass
    assert 0 <= now.cpu_fraction_since(first) <= 1
