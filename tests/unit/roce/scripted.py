"""The scripted wire of the MRC tests with a RoCE queue pair on it."""

from __future__ import annotations

from typing import Any

from agents.nic import Nic
from agents.roce.qp import RoceQueuePair
from agents.wire.packet import Packet, RcWrite
from tests.unit.mrc.scripted import ONE_WAY_NS, Rule, ScriptedPair


class RocePair(ScriptedPair):
    """`options` are settings of RoceConfig; the links run at 100 Gb/s."""

    qps: list[RoceQueuePair]  # type: ignore[assignment]

    def _queue_pair(self, nic: Nic, peer: int, options: dict[str, Any]) -> RoceQueuePair:  # type: ignore[override]
        return nic.create_qp(peer, transport="roce", options=nic.roce_config(**options))

    def psns(self) -> list[int]:
        """The PSNs of all data packets of host 0, in the order of sending."""
        return [packet.psn for packet in self.sent(RcWrite)]


def losing(*numbers: int) -> Rule:
    """Loses the data packets of host 0 with these places in the order of sending, from 0 on."""
    seen = -1

    def rule(host: int, packet: Packet) -> list[int]:
        nonlocal seen
        if host == 0 and isinstance(packet.body, RcWrite):
            seen += 1
            if seen in numbers:
                return []
        return [ONE_WAY_NS]

    return rule
