"""How many bytes a queue pair may have in flight: algorithms behind one interface, and a registry by name.

`base` is the interface, `fixed` a constant window, `nscc` the network signal based congestion control of UET.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import CongestionControl, Fabric
from agents.mrc.congestion.fixed import FixedWindow
from agents.mrc.congestion.nscc import Nscc

ALGORITHMS: dict[str, Callable[[MrcConfig, Fabric], CongestionControl]] = {"nscc": Nscc, "fixed": FixedWindow}


def create(config: MrcConfig, fabric: Fabric) -> CongestionControl:
    """The algorithm that `config.congestion` names. Raises ValueError with the names there are."""
    algorithm = ALGORITHMS.get(config.congestion)
    if algorithm is None:
        raise ValueError(f"no congestion control is called {config.congestion!r}; there are: {', '.join(ALGORITHMS)}")
    return algorithm(config, fabric)
