"""testbed.web.runs: the traffic that the page offers."""

from __future__ import annotations

import pytest

from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from testbed.topology.library import find
from testbed.web.runs import traffic_scenario


@pytest.mark.parametrize(("lab", "load", "message"), [("wide", 1, "4 KB"), ("wide", 10, "4 KB"), ("demo", 60, "32 KB")])
def test_messages_are_small_where_links_are_slow(lab: str, load: int, message: str) -> None:
    (workload,) = traffic_scenario(load_lab(find("topologies", lab)), load)["workloads"]
    assert workload["message"] == message


@pytest.mark.parametrize("load", [0, 101])
def test_a_load_that_cannot_be_is_refused(load: int) -> None:
    with pytest.raises(InputError):
        traffic_scenario(load_lab(find("topologies", "tiny")), load)
