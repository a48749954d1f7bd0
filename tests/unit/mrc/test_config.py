"""Settings: time dilation, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from agents.mrc import congestion
from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import Fabric
from agents.mrc.congestion.nscc import Nscc


def test_every_time_of_the_real_fabric_is_dilated() -> None:
    plain, slow = MrcConfig.dilated(1), MrcConfig.dilated(5000)
    assert plain == MrcConfig()
    for name in (
        "initial_rtt_ns",
        "reorder_floor_ns",
        "rto_min_ns",
        "probe_timeout_ns",
        "port_update_interval_ns",
        "tick_ns",
    ):
        assert getattr(slow, name) == 5000 * getattr(plain, name)


def test_the_probe_interval_is_the_lab_files_and_stays() -> None:
    assert MrcConfig.dilated(5000).probe_interval_ns == MrcConfig().probe_interval_ns
    assert MrcConfig.dilated(5000, probe_interval_ns=7).probe_interval_ns == 7


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"window_bytes": 0}, "window_bytes is 0; it has to be at least 1"),
        ({"ev_min_active": 0}, "ev_min_active is 0"),
        ({"mpr": 1000}, "mpr is 1000; it has to be a multiple of 128 from 128 to 32640"),
        ({"mpr": 1 << 16}, "mpr is 65536"),
        ({"start_psn": 1 << 24}, "start_psn 16777216 does not fit in 24 bits"),
    ],
)
def test_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MrcConfig(**setting)


def test_congestion_control_by_name() -> None:
    fabric = Fabric(planes=4, mtu_bytes=4096)
    window = congestion.create(MrcConfig(congestion="fixed", window_bytes=1234), fabric)
    window.on_acked(4096, 1000, marked=True, penalty=64, in_flight_bytes=0, now=0)
    window.on_trimmed(4096, 1000, in_flight_bytes=0, now=0)
    window.on_lost(4096, 0)
    assert window.window_bytes == 1234
    assert isinstance(congestion.create(MrcConfig(), fabric), Nscc)
    with pytest.raises(ValueError, match="no congestion control is called 'magic'; there are: nscc, fixed"):
        congestion.create(replace(MrcConfig(), congestion="magic"), fabric)
    with pytest.raises(ValueError, match="the fixed window has no setting gamma"):
        congestion.create(MrcConfig(congestion="fixed", congestion_settings={"gamma": 1}), fabric)
