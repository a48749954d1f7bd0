"""testbed.lab.agents: what it tells the launcher is what the launcher understands, and its errors are in words."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from agents.daemon import parse_spec
from agents.mrc.config import MrcConfig
from agents.roce.config import RoceConfig
from agents.roce.dcqcn import PROFILES
from testbed.lab.agents import AgentClient, AgentError, AgentGroup, AgentRefusedError, launch_spec
from testbed.topology import clos
from testbed.topology.labspec import LabSpec
from testbed.topology.transportspec import Transport


def test_the_launcher_understands_the_spec_of_a_lab() -> None:
    spec = LabSpec(name="rwlab", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2)
    fabric = clos.build(spec)
    agents = parse_spec(json.loads(json.dumps(launch_spec(fabric, Path("/run/mrclab/rwlab")))))
    assert [agent.name for agent in agents] == ["h0", "h1", "h2", "h3"]
    assert [agent.nic.host for agent in agents] == [0, 1, 2, 3]
    assert agents[3].netns == "/run/netns/rwlab.h3"
    assert agents[3].nic.time_dilation == spec.time_dilation
    for plane, port in enumerate(agents[3].ports):
        link = fabric.links[f"h3:p{plane}t0-1"]
        assert (port.ifname, port.mac, port.gateway_mac) == (f"eth{plane}", link.a.mac, link.b.mac)
        assert port.rate_bps == link.rate_bps
    assert len({agent.seed for agent in agents}) == 4


def test_the_transport_section_becomes_options_of_a_queue_pair() -> None:
    options = Transport(congestion="fixed", window="128 KB", retire_evs=False).qp_options()  # type: ignore[arg-type]
    assert options["window_bytes"] == 128 << 10
    assert options["retire_evs"] is False
    assert set(options) <= {field.name for field in fields(MrcConfig)}
    MrcConfig.dilated(5000.0, **options)
    baseline = Transport(kind="roce", dcqcn="eager", retry_count=3).qp_options()
    assert RoceConfig.dilated(5000.0, **baseline).retry_count == 3
    assert len(options) + len(baseline) + len(["kind"]) == len(Transport.model_fields), "each field has its use"


@pytest.mark.parametrize("name", PROFILES)
def test_a_lab_file_can_name_every_dcqcn_profile(name: str) -> None:
    options = Transport.model_validate({"kind": "roce", "dcqcn": name}).qp_options()
    assert RoceConfig.dilated(1, **options).parameters.g == PROFILES[name].g
    assert len(PROFILES) == len(get_args(Transport.model_fields["dcqcn"].annotation))


class Peer:
    """A process that answers each line it reads with the next of `answers`; None: it hangs up instead."""

    def __init__(self, path: Path, answers: list[bytes | None]) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._answers = iter(answers)
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            for _line in connection.makefile("rb"):
                answer = next(self._answers)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    break
                connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self._connections:
            connection.close()
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[Peer]]:
    made: list[Peer] = []
    yield made
    for peer in made:
        peer.close()


def answers(peers: list[Peer], tmp_path: Path, *lines: bytes | None) -> AgentClient:
    peer = Peer(tmp_path / f"h{len(peers)}.sock", list(lines))
    peers.append(peer)
    return AgentClient(peer.path, timeout_s=0.2)


def test_an_answer_without_its_ok(peers: list[Peer], tmp_path: Path) -> None:
    assert answers(peers, tmp_path, b'{"ok":true,"x":1}\n').call("hello") == {"x": 1}


def test_a_refusal_is_an_error_with_the_agents_words(peers: list[Peer], tmp_path: Path) -> None:
    client = answers(peers, tmp_path, b'{"ok":false,"error":"no such thing"}\n', b'{"ok":true}\n')
    with pytest.raises(AgentRefusedError, match=r"^agent h0: no such thing$"):
        client.call("hello")
    assert client.call("hello") == {}, "the connection is as good as before"


def test_an_agent_that_says_nothing_in_time(peers: list[Peer], tmp_path: Path) -> None:
    client = answers(peers, tmp_path, b'{"ok":', b'{"ok":true,"x":2}\n')
    with pytest.raises(AgentError, match=r"^agent h0 did not answer within 0.2 s$"):
        client.call("hello")


def test_an_agent_that_ends_during_a_call_and_is_there_again(peers: list[Peer], tmp_path: Path) -> None:
    client = answers(peers, tmp_path, None, b'{"ok":true,"x":2}\n')
    with pytest.raises(AgentError, match=r"agent h0 has (ended|gone)"):
        client.call("hello")
    assert client.call("hello") == {"x": 2}


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"^agent h7 is not running") as error:
        AgentClient(tmp_path / "h7.sock").call("hello")
    assert error.value.exit_code == 4


def test_a_group_reads_all_answers_before_it_complains(peers: list[Peer], tmp_path: Path) -> None:
    bad = answers(peers, tmp_path, b'{"ok":false,"error":"no"}\n', b'{"ok":true,"x":1}\n')
    good = answers(peers, tmp_path, b'{"ok":true,"x":0}\n', b'{"ok":true,"x":2}\n')
    with AgentGroup({"h0": bad, "h1": good}) as group:
        with pytest.raises(AgentRefusedError, match=r"^agent h0: no$"):
            group.call("hello")
        assert group.call("hello") == {"h0": {"x": 1}, "h1": {"x": 2}}


def test_a_group_can_ask_each_host_something_else(peers: list[Peer], tmp_path: Path) -> None:
    clients = {f"h{number}": answers(peers, tmp_path, b'{"ok":true}\n') for number in range(3)}
    with AgentGroup(clients) as group:
        assert group.call_each("hello", {"h0": {}, "h2": {"a": 1}}) == {"h0": {}, "h2": {}}
