"""Congestion control profiles, shaped like those of `mrc_ctl.h`: an algorithm and its attributes by name.

A profile goes INIT -> OFFLINE (which algorithm, which attributes) -> ONLINE (queue pairs may use it) and back, by the
same steps as an EV profile (`profile`). Attributes that were not given are derived from the fabric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from agents.mrc import congestion
from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import Fabric
from agents.mrc.congestion.nscc import NsccProfile
from agents.mrc.profile import ProfileError, ProfileState, check_step

if TYPE_CHECKING:
    from agents.mrc.qp import MrcQueuePair


class CcProfile:
    """One profile of a NIC."""

    def __init__(self, profile_id: int, config: MrcConfig, fabric: Fabric) -> None:
        """`config`: the settings of a queue pair that this NIC makes by default."""
        self.profile_id = profile_id
        self._config = config
        self._fabric = fabric
        self._queue_pairs: list[MrcQueuePair] = []
        self._forget()

    def _forget(self) -> None:
        self.state = ProfileState.INIT
        self.algorithm = self._config.congestion
        self._given: dict[str, Any] = {}

    def modify(
        self,
        *,
        state: ProfileState | None = None,
        algorithm: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is given, and then the state; attributes that are not named stay, except under another
        algorithm. Nothing changes when ProfileError is raised.
        """
        target = self.state if state is None else state
        check_step(self.state, target, changed=algorithm is not None or attributes is not None, users=self.users)
        if target is ProfileState.INIT and self.state is ProfileState.OFFLINE:
            self._forget()
            return
        chosen = self.algorithm if algorithm is None else algorithm
        given = {**(self._given if chosen == self.algorithm else {}), **(attributes or {})}
        try:
            congestion.create(self._with(self._config, chosen, given), self._fabric)
        except (ValueError, TypeError) as error:
            raise ProfileError("EINVAL", str(error)) from error
        self.algorithm, self._given, self.state = chosen, given, target

    def attributes(self) -> dict[str, Any]:
        """All attributes by name, in bytes and ns, whether given or derived. A fixed window has none."""
        if self.algorithm != "nscc":
            return {}
        return asdict(NsccProfile.derive(self._with(self._config, self.algorithm, self._given), self._fabric))

    @property
    def users(self) -> list[int]:
        """Numbers of the queue pairs that use it."""
        self._queue_pairs = [queue_pair for queue_pair in self._queue_pairs if not queue_pair.closed]
        return [queue_pair.qpn for queue_pair in self._queue_pairs]

    def apply(self, config: MrcConfig) -> MrcConfig:
        """The settings of a queue pair that is to use the profile. Raises ProfileError unless it is ONLINE."""
        if self.state is not ProfileState.ONLINE:
            raise ProfileError("EINVAL", f"CC profile {self.profile_id} is {self.state.value}, not ONLINE")
        return self._with(config, self.algorithm, self._given)

    def attach(self, queue_pair: MrcQueuePair) -> None:
        """A queue pair with the settings of `apply` exists from now on, until it is closed."""
        self._queue_pairs.append(queue_pair)

    @staticmethod
    def _with(config: MrcConfig, algorithm: str, given: Mapping[str, Any]) -> MrcConfig:
        return replace(config, congestion=algorithm, congestion_settings=dict(given))
