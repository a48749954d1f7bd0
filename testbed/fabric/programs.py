"""The eBPF programs and maps of one lab: what hangs at the ports, loaded once for all of them.

At the ingress of a host's port its agent's packets end (ingress.bpf.c); at the egress of every port is what makes it a
switch's or a NIC's (port.bpf.c). The latter decides on HTB's own queue where the kernel lets it look (6.2 on); before
that on a virtual queue.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.fabric import bpf
from testbed.fabric.plan import INGRESS_PROGRAM, PORT_PROGRAM
from testbed.fabric.portmap import PortMap

INGRESS_SOURCE = Path(__file__).with_name("ingress.bpf.c")
PORT_SOURCE = Path(__file__).with_name("port.bpf.c")
_PORT_PROGRAM_VIRTUAL = "mrclab_port_virtual"

PORTS_MAP, EVS_MAP = "ports", "evs"


class Programs:
    """Loaded, and to be attached: `fds` by the names that the plan uses. Close it when they are."""

    def __init__(self, last_ifindex: int, *, virtual_queue: bool = False) -> None:
        """A port map up to `last_ifindex`; `virtual_queue`: as if the kernel were older. MissingError: it cannot be."""
        with contextlib.ExitStack() as opened:
            ingress = opened.enter_context(bpf.BpfObject(bpf.compile_program(INGRESS_SOURCE), [INGRESS_PROGRAM], {}))
            port, name = _load_port(last_ifindex + 1, virtual_queue)
            opened.enter_context(port)
            self.ports = opened.enter_context(PortMap(port.map_fd(PORTS_MAP)))
            self._opened = opened.pop_all()
        self.virtual_queue = name == _PORT_PROGRAM_VIRTUAL
        self.fds = {INGRESS_PROGRAM: ingress.program_fd(INGRESS_PROGRAM), PORT_PROGRAM: port.program_fd(name)}
        self.ids = [ingress.program_id(INGRESS_PROGRAM), port.program_id(name)]
        self.map_ids = {PORTS_MAP: port.map_id(PORTS_MAP), EVS_MAP: port.map_id(EVS_MAP)}

    def close(self) -> None:
        """Let go; the ports keep what is attached to them."""
        self._opened.close()

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def loaded(ids: Sequence[int]) -> Iterator[dict[str, int]]:
    """What to attach the programs of a lab that is up by, from their `ids`. Raises OSError when one is gone."""
    with contextlib.ExitStack() as opened:
        fds = {}
        for name, number in zip((INGRESS_PROGRAM, PORT_PROGRAM), ids, strict=True):
            fds[name] = bpf.open_program(number)
            opened.callback(os.close, fds[name])
        yield fds


def _load_port(entries: int, virtual_queue: bool) -> tuple[bpf.BpfObject, str]:
    object_file, sizes = bpf.compile_program(PORT_SOURCE), {PORTS_MAP: entries}
    if not virtual_queue:
        with contextlib.suppress(bpf.Refused):
            return bpf.BpfObject(object_file, [PORT_PROGRAM], sizes), PORT_PROGRAM
    return bpf.BpfObject(object_file, [_PORT_PROGRAM_VIRTUAL], sizes), _PORT_PROGRAM_VIRTUAL
