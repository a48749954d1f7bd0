"""Two namespaces joined by veths, each port shaped like a host's of the lab: what rawio and the daemon are tested on.

rwa<pid>-<n>                rwb<pid>-<n>
  eth0 ------- veth ------- eth0        HTB: 1:1 control, 1:10 data, both of the given rate
  eth1 ------- veth ------- eth1
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.rawio.libc import enter_network_namespace
from agents.rawio.port import PortSpec

_numbers = itertools.count()
_OWN_NAMESPACE = Path("/proc/thread-self/ns/net")


def ip(*arguments: str) -> None:
    """Run `ip ...`."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Poll until the condition holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.001)


class Cable:
    """The two ends are named `a` and `b`; port n is `eth<n>` at both."""

    def __init__(self, ports: int = 2, rate: str = "20mbit") -> None:
        self.ports = ports
        number = next(_numbers)
        self.namespaces = {end: f"rw{end}{os.getpid()}-{number}" for end in "ab"}
        for name in self.namespaces.values():
            ip("netns", "add", name)
        for port in range(ports):
            self._join(port, rate)

    def _join(self, port: int, rate: str) -> None:
        a, b = (self.namespaces[end] for end in "ab")
        name = f"eth{port}"
        ip(*f"link add {name} netns {a} mtu 4400 address {self.mac('a', port)}".split(),
           *f"type veth peer name {name} netns {b} mtu 4400 address {self.mac('b', port)}".split())  # fmt: skip
        for namespace in (a, b):
            ip("-n", namespace, "link", "set", name, "up")
            for words in (
                f"qdisc add dev {name} root handle 1: htb default 10 r2q 1",
                f"class add dev {name} parent 1: classid 1:1 htb rate {rate} burst 8k quantum 9000 prio 0",
                f"class add dev {name} parent 1: classid 1:10 htb rate {rate} burst 8k quantum 9000 prio 1",
                f"qdisc add dev {name} parent 1:10 bfifo limit 2mb",
            ):
                subprocess.run(["tc", "-n", namespace, *words.split()], check=True, capture_output=True)

    @staticmethod
    def mac(end: str, port: int) -> str:
        """The MAC address of a port."""
        return f"02:6d:00:00:{'ab'.index(end):02x}:{port:02x}"

    def specs(self, end: str) -> list[PortSpec]:
        """The ports of an end, as rawio wants them."""
        far = {"a": "b", "b": "a"}[end]
        return [PortSpec(f"eth{port}", self.mac(end, port), self.mac(far, port)) for port in range(self.ports)]

    def path(self, end: str) -> str:
        """The file that names an end's namespace."""
        return f"/run/netns/{self.namespaces[end]}"

    def set_link(self, end: str, port: int, state: str) -> None:
        """Put an end's port `up` or `down`."""
        ip("-n", self.namespaces[end], "link", "set", f"eth{port}", state)

    @contextmanager
    def inside(self, end: str) -> Iterator[None]:
        """What is opened here belongs to an end's namespace."""
        before = os.open(_OWN_NAMESPACE, os.O_RDONLY)
        try:
            enter_network_namespace(self.path(end))
            yield
        finally:
            enter_network_namespace(f"/proc/self/fd/{before}")
            os.close(before)

    def remove(self) -> None:
        """Take both namespaces away, and the veths with them."""
        for name in self.namespaces.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
