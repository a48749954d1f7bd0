"""The routing daemons of a lab with `routing: bgp`: FRR's zebra, bgpd and bfdd in the namespace of every switch.

What they are told is `fabric.routing.bgp`'s. They run as FRR's own user, with a folder for each switch in the lab's: as
root nobody could talk to them (`vtysh --vty_socket FOLDER`). `down` ends them like all that runs in a lab's namespaces.
They keep notes for a crash in /var/tmp, which therefore is their own folder here: nothing is left if they are killed.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.fabric import netns, observe
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import namespace_name
from testbed.fabric.routing import bgp
from testbed.lab import processes
from testbed.topology.clos import Clos, Node
from testbed.topology.errors import MissingError, MrclabError

DAEMONS = Path("/usr/lib/frr")
USER = "frr"
FIX = "apt-get install frr"
PURPOSE = "labs with routing: bgp"
MB_PER_SWITCH = 34  # zebra 12, bgpd 16, bfdd 6

Routers = dict[str, dict[str, int]]  # switch -> daemon -> pid

_AT_ONCE = 8
_STARTED_WITHIN_S = 60.0
_CONVERGED_WITHIN_S = 90.0
_POLL_S = 0.1
_SHOWN = 3

# The notes for a crash go to the switch's folder. `slave`: namespaces that are removed meanwhile vanish there as well.
_PRIVATE_TMP = ("unshare", "--mount", "--propagation", "slave", "sh", "-c")
_MOUNT_AND_RUN = 'mount --bind "$0" /var/tmp && exec "$@"'


def missing() -> str:
    """What of FRR is not there; empty when all is."""
    absent = [name for name in ("zebra", "bgpd", "bfdd") if not os.access(DAEMONS / name, os.X_OK)]
    if absent:
        return f"no {absent[0]} in {DAEMONS}"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"there is no user {USER}"
    return ""


def require(fabric: Clos) -> None:
    """Raises MissingError when FRR, or the memory for a daemon set per switch, is not there."""
    if why := missing():
        raise MissingError(f"FRR is missing: {why}", PURPOSE, FIX)
    needed_mb, free_mb = MB_PER_SWITCH * len(fabric.switches), _free_mb()
    if needed_mb > free_mb:
        what = f"{needed_mb} MB of memory for the daemons of {len(fabric.switches)} switches, {free_mb} MB are free"
        raise MissingError(what, PURPOSE, "take a lab with fewer planes or switches, or end other programs")


def _free_mb() -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) // 1024


def folder(run_dir: Path, switch: str) -> Path:
    """Where the daemons of a switch have their configuration, sockets and logs."""
    return run_dir / "frr" / switch


@dataclass(frozen=True, slots=True)
class _Start:
    """A daemon that is to be started."""

    switch: str
    daemon: str
    folder: Path

    @property
    def pid_file(self) -> Path:
        return self.folder / f"{self.daemon}.pid"

    def command(self) -> list[str]:
        """Returns when the daemon runs in the background, or could not."""
        here = self.folder
        more = ["--bfdctl", str(here / "bfdd.sock")] if self.daemon == "bfdd" else []
        return [
            *_PRIVATE_TMP, _MOUNT_AND_RUN, str(here), str(DAEMONS / self.daemon), "-d", "-f",
            str(here / f"{self.daemon}.conf"), "-i", str(self.pid_file), "-z", str(here / "zserv.api"),
            "--vty_socket", str(here), "-P", "0", "--log", f"file:{here / self.daemon}.log", "--log-level", "warnings",
            *more,
        ]  # fmt: skip


def start(
    fabric: Clos, run_dir: Path, progress: Callable[[int, int], None], nodes: Iterable[str] | None = None
) -> Routers:
    """Start the daemons of all switches, or of some; their pids. Raises MrclabError when one does not start."""
    chosen = set(fabric.nodes if nodes is None else nodes)
    switches = [switch for switch in fabric.switches if switch.name in chosen]
    for switch in switches:
        _configure(fabric, switch, folder(run_dir, switch.name))
    waves = [
        [_Start(switch.name, daemon, folder(run_dir, switch.name)) for switch in switches if switch.kind in tiers]
        for daemon, tiers in _order(fabric)
    ]
    starts = [one for wave in waves for one in wave]
    for wave in waves:
        for first in range(0, len(wave), _AT_ONCE):
            _start_all(fabric, wave[first : first + _AT_ONCE])
            progress(min(starts.index(wave[first]) + _AT_ONCE, len(starts)), len(starts))
    routers: Routers = {switch.name: {} for switch in switches}
    for one in starts:
        routers[one.switch][one.daemon] = int(one.pid_file.read_text())
    return routers


def _order(fabric: Clos) -> list[tuple[str, tuple[str, ...]]]:
    """Daemons and the tiers in which they are started together.

    Sessions are opened by the T0s: they come when the T1s are ready, since a peer that opens one while the other still
    reads its configuration waits for its hold time.
    """
    others = ("bfdd", "bgpd") if fabric.spec.bgp.bfd else ("bgpd",)
    return [("zebra", ("t0", "t1")), *((daemon, (tier,)) for tier in ("t1", "t0") for daemon in others)]


def _configure(fabric: Clos, switch: Node, own: Path) -> None:
    user = pwd.getpwnam(USER)
    own.mkdir(mode=0o750, parents=True, exist_ok=True)
    own.parent.chmod(0o755)
    os.chown(own, user.pw_uid, user.pw_gid)
    for daemon, told in bgp.configuration(fabric, switch).items():
        file = own / f"{daemon}.conf"
        file.write_text(told)
        os.chown(file, user.pw_uid, user.pw_gid)


def _start_all(fabric: Clos, starts: Iterable[_Start]) -> None:
    environment = {**os.environ, processes.LAB_VARIABLE: fabric.spec.name}
    started = []
    for one in starts:
        with netns.inside(namespace_name(fabric.spec.name, one.switch)):
            process = subprocess.Popen(
                one.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                start_new_session=True,
            )
        started.append((one, process))
    for one, process in started:
        try:
            said, _ = process.communicate(timeout=_STARTED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise MrclabError(f"{one.daemon} of {one.switch} did not start within {_STARTED_WITHIN_S:.0f} s") from None
        if process.returncode != 0:
            lines = said.strip().splitlines() or ["no reason given"]
            raise MrclabError(f"{one.daemon} of {one.switch} did not start: {lines[-1]}")


def dead(lab: str, routers: Routers) -> list[str]:
    """`SWITCH DAEMON` for each that is not there any more."""
    return [
        f"{switch} {daemon}"
        for switch, pids in routers.items()
        for daemon, pid in pids.items()
        if not processes.lives_in(pid, namespace_name(lab, switch))
    ]


def stop(lab: str, routers: Routers) -> None:
    """End these daemons, as far as they run, and wait until they have gone. Raises MrclabError."""
    running = [
        pid for switch, pids in routers.items() for pid in pids.values()
        if processes.lives_in(pid, namespace_name(lab, switch))
    ]  # fmt: skip
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STARTED_WITHIN_S
    while left := [pid for pid in running if processes.is_alive(pid)]:
        if time.monotonic() > deadline:
            raise MrclabError(f"routing daemons {', '.join(map(str, left))} do not end")
        time.sleep(_POLL_S)


def differences(fabric: Clos, kernel: Kernel) -> list[str]:
    """What the switches have not learned, or not over all their links, in words; empty when BGP has converged."""
    found = []
    for switch in fabric.switches:
        wanted, there = bgp.learned(fabric, switch), observe.learned(kernel, switch.name)
        for prefix in sorted(wanted.keys() | there.keys()):
            want, have = wanted.get(prefix, 0), there.get(prefix, 0)
            if want != have:
                found.append(f"{switch.name}: bgp: {prefix} over {have} links, not {want}")
    return found


def wait_until_converged(fabric: Clos, kernel: Kernel, progress: Callable[[int, int], None]) -> None:
    """Return when every switch has learned every path. Raises MrclabError with what is missing after a while."""
    deadline = time.monotonic() + _CONVERGED_WITHIN_S
    all_routes = sum(len(bgp.learned(fabric, switch)) for switch in fabric.switches)
    while wrong := differences(fabric, kernel):
        progress(all_routes - len(wrong), all_routes)
        if time.monotonic() > deadline:
            shown = "; ".join(wrong[:_SHOWN]) + (f" (and {len(wrong) - _SHOWN} more)" if wrong[_SHOWN:] else "")
            raise MrclabError(f"BGP has not converged within {_CONVERGED_WITHIN_S:.0f} s: {shown}")
        time.sleep(_POLL_S)
    progress(all_routes, all_routes)
