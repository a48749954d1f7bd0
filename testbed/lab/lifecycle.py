"""A lab's life: up, down, status. The commands' engine; what is shown to people is the command line's.

`up` records every name before it makes anything of it, reads the kernel back, proves the paths, and takes everything
away again when something fails or the user interrupts. `down` needs only what was recorded.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from testbed.fabric import apply, bpf, netem, netns, observe, plan
from testbed.fabric.netlink import Kernel
from testbed.fabric.portmap import PortMap, ev_uses
from testbed.fabric.programs import EVS_MAP, PORTS_MAP, Programs
from testbed.lab import agents, frr, limits, lock, processes, state
from testbed.lab.state import LabState
from testbed.lab.verify import verify_paths
from testbed.lab.verify_hashed import verify_hashed
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError, MrclabError
from testbed.topology.labspec import LabSpec

RESULT_SCHEMA_VERSION = 1
AGENT_GRACE_S = 1.0
PROGRAMS_GONE_WITHIN_S, PROGRAMS_GONE_PER_NODE_S = 10.0, 0.05
MAPS_GONE_WITHIN_S = 1.0  # where nobody reads them it takes some hundredths
_POLL_S = 0.01
_DIFFERENCES_SHOWN = 5

Progress = Callable[[str, int, int], None]  # (phase, done, of)


def _silent(phase: str, done: int, of: int) -> None:
    """The default: nobody watches."""


@dataclass(frozen=True, slots=True)
class UpResult:
    """What `up` made, and how long each phase took."""

    lab: str
    hosts: int
    switches: int
    links: int
    paths_verified: int
    seconds: dict[str, float]
    already_up: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"schema_version": RESULT_SCHEMA_VERSION, **asdict(self)}


@dataclass(frozen=True, slots=True)
class DownResult:
    """What `down` removed; `was_there` is False when the lab had left nothing.

    `readers`: processes (pid: command line) that read the ports' counters; the map of them goes when they let go.
    """

    lab: str
    was_there: bool
    namespaces: int
    processes: int
    seconds: float
    readers: dict[int, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"schema_version": RESULT_SCHEMA_VERSION, **asdict(self)}


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab as it is now. `routers_dead`: `SWITCH DAEMON` of each routing daemon that has ended.

    `differences` are what is not as planned, in words; empty when not looked at.
    """

    lab: str
    phase: str
    source_file: str
    hosts: int
    switches: int
    links: int
    agents_alive: int
    agents_dead: list[str]
    routers_dead: list[str]
    namespaces_missing: list[str]
    differences: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Up, with all agents and namespaces, and nothing that differs."""
        return self.phase == "up" and not (
            self.agents_dead or self.routers_dead or self.namespaces_missing or self.differences
        )

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"schema_version": RESULT_SCHEMA_VERSION, **asdict(self), "healthy": self.healthy}


class _Stopwatch:
    """Seconds per phase, in their order."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - start, 4)

    def total(self) -> dict[str, float]:
        return {"total": round(time.monotonic() - self._start, 4), **self.seconds}


def up(
    spec: LabSpec, source_file: str | Path, progress: Progress = _silent, within_s: float = limits.UP_WITHIN_S
) -> UpResult:
    """Bring a lab up. Up already from the same file: says so, and changes nothing.

    A lab that would take longer than `within_s` by what is known of its size is refused.

    Raises InputError when a lab of that name is up from another file or a foreign namespace has a name we need,
    MissingError when the machine lacks something, MrclabError when the kernel is not as planned. After an error nothing
    of the lab is left.
    """
    refuse_what_only_sim_has(spec)
    source = str(Path(source_file).resolve())
    with lock.exclusive(spec.name, "mrclab up"):
        found = state.load(spec.name)
        if found is not None and found.phase == "up":
            return _already_up(found, spec, source)
        if found is not None:
            _remove(found)  # the rest of a command that was killed; the lock says that nobody works on it
        limits.require(spec, within_s=within_s)  # before the plan: that of a lab far too large takes minutes
        fabric = clos.build(spec)
        desired = plan.build(fabric)
        _refuse_foreign(desired)
        netem.require_for(desired)
        if spec.routing == "bgp":
            frr.require(fabric)
        made = LabState(spec, source, namespaces=[node.namespace for node in desired.nodes.values()])
        with _termination_interrupts():
            try:
                made.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                made.save()
                return _make(made, fabric, desired, progress)
            except BaseException as error:
                with _undisturbed(forget=True):
                    _remove(made)
                if isinstance(error, OSError):
                    raise MrclabError(f"lab {spec.name} could not be built: {error}") from error
                raise


def refuse_what_only_sim_has(spec: LabSpec) -> None:
    """Raises InputError for what a lab file may ask for in virtual time only."""
    if spec.queue.pfc:
        raise InputError(
            f"lab {spec.name} asks for PFC, and the kernel's ports cannot pause each other",
            "use mrclab sim, or leave queue.pfc out",
        )


def _already_up(found: LabState, spec: LabSpec, source: str) -> UpResult:
    if found.source_file != source:
        raise InputError(f"lab {spec.name} is up already, from {found.source_file}", f"mrclab down {spec.name}")
    if found.spec != spec:
        raise InputError(
            f"lab {spec.name} is up already, and {source} has changed since", f"mrclab down {spec.name}, then up"
        )
    return UpResult(**{**found.up_result, "already_up": True})


def _refuse_foreign(desired: plan.FabricPlan) -> None:
    taken = sorted(netns.names() & {node.namespace for node in desired.nodes.values()})
    if taken:
        raise InputError(
            f"namespace {taken[0]} exists and is not ours" + (f" (and {len(taken) - 1} more)" if taken[1:] else ""),
            f"name the lab otherwise, or remove it: ip netns delete {taken[0]}",
        )


def _make(made: LabState, fabric: Clos, desired: plan.FabricPlan, progress: Progress) -> UpResult:
    watch = _Stopwatch()

    def steps(phase: str) -> Callable[[int, int], None]:
        return lambda done, of: progress(phase, done, of)

    with agents.Launcher(made.name) as launcher, Kernel(made.name) as kernel:
        with watch.phase("namespaces"):
            apply.create_namespaces(desired, steps("namespaces"))
        with watch.phase("links"):
            apply.create_links(desired, kernel)
            progress("links", len(fabric.links), len(fabric.links))
        with Programs(desired.last_ifindex) as programs:
            with watch.phase("ports"):
                made.programs, made.maps = programs.ids, programs.map_ids
                made.save()
                apply.configure(desired, kernel, programs, steps("ports"))
            with watch.phase("read_back"):
                _read_back(desired, kernel, programs.ports)
                progress("read_back", 1, 1)
        with watch.phase("agents"):
            made.agents = launcher.start(fabric, made.directory)
            made.save()
            progress("agents", len(made.agents), len(made.agents))
        if made.spec.routing == "bgp":
            with watch.phase("daemons"):
                made.routers = frr.start(fabric, made.directory, steps("daemons"))
                made.save()
            with watch.phase("convergence"):
                frr.wait_until_converged(fabric, kernel, steps("convergence"))
        with watch.phase("paths"), agents.AgentGroup.of(made.directory, made.agents) as group:
            if made.spec.source_routed:
                verified = verify_paths(fabric, kernel, group, steps("paths"))
            else:
                with PortMap.of_id(made.maps[PORTS_MAP]) as ports:
                    uses = partial(ev_uses, made.maps[EVS_MAP])
                    verified = verify_hashed(fabric, ports, uses, group, steps("paths"))
            agents.begin_probing(group, made.spec)
    counts = len(fabric.hosts), len(fabric.switches), len(fabric.links)
    result = UpResult(made.name, *counts, verified, watch.total())
    made.up_result = asdict(result)
    made.phase = "up"
    made.save()
    return result


def _read_back(desired: plan.FabricPlan, kernel: Kernel, ports: PortMap) -> None:
    wrong = observe.differences(desired, kernel, ports)
    if wrong:
        shown = "; ".join(map(str, wrong[:_DIFFERENCES_SHOWN]))
        raise MrclabError(f"the kernel did not take the lab as planned, {len(wrong)} differences: {shown}")


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM is taken like SIGINT, so that it rolls back as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _undisturbed(*, forget: bool = False) -> Iterator[None]:
    """SIGINT and SIGTERM wait until the removal is done; `forget` them then, where what they ask for goes on anyway."""
    blocked = {signal.SIGINT, signal.SIGTERM}
    came: list[int] = []
    handlers = {}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)  # for this thread, and for what it starts
    if threading.current_thread() is threading.main_thread():  # another thread may take a signal: it is noted down
        handlers = {number: signal.signal(number, lambda taken, _: came.append(taken)) for number in blocked}
    try:
        yield
    finally:
        while (pending := signal.sigtimedwait(blocked, 0)) is not None:
            came.append(pending.si_signo)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came and not forget:
            signal.raise_signal(came[0])


def down(name: str, progress: Progress = _silent) -> DownResult:
    """Remove all that the lab's state file names, and wait until it is gone. Nothing there is no error.

    An interrupt takes effect when all is gone.
    """
    start = time.monotonic()
    with lock.exclusive(name, "mrclab down"), _undisturbed():
        found = state.load(name)
        if found is None:
            state.forget(name)
            return DownResult(name, False, 0, 0, round(time.monotonic() - start, 4))
        ended, readers = _remove(found, progress)
    seconds = round(time.monotonic() - start, 4)
    return DownResult(name, True, len(found.namespaces), ended, seconds, readers)


def _remove(found: LabState, progress: Progress = _silent) -> tuple[int, dict[int, str]]:
    """Processes first, for an open namespace would outlive its name. How many were ended, and readers of its ports."""
    found.phase = "removing"
    with contextlib.suppress(OSError):  # a full disk: what has to go is on file all the same
        found.save()
    inodes = processes.inodes_of(found.namespaces)
    ended = processes.end_all(found.name, inodes, AGENT_GRACE_S)
    progress("processes", ended, ended)
    apply.remove_namespaces(found.namespaces)
    ended += processes.end_all(found.name, inodes, AGENT_GRACE_S)  # one that came in just before the names went
    progress("namespaces", len(found.namespaces), len(found.namespaces))
    readers = _wait_until_gone(found)
    state.forget(found.name)
    return ended, readers


def _wait_until_gone(found: LabState) -> dict[int, str]:
    """The kernel takes namespaces apart after their names are gone; the last of their ports let go of the programs.

    The programs let go of their maps; but who reads the port map in its memory keeps it. Returns those.
    """
    start, within_s = time.monotonic(), PROGRAMS_GONE_WITHIN_S + len(found.namespaces) * PROGRAMS_GONE_PER_NODE_S
    while True:
        programs = [f"program {number}" for number in found.programs if bpf.is_loaded(number)]
        maps = [f"map {number} ({name})" for name, number in found.maps.items() if bpf.map_is_there(number)]
        waited_s = time.monotonic() - start
        if not programs and not maps:
            return {}
        if not programs and waited_s > MAPS_GONE_WITHIN_S and (readers := processes.holding_maps()):
            return readers
        if waited_s > within_s:
            held = ", ".join([*programs, *maps])
            raise MrclabError(f"eBPF {held} still held {within_s:.0f} s after the lab went")
        time.sleep(_POLL_S)


def status(name: str, *, read_back: bool = True) -> LabStatus:
    """How a lab is now; with `read_back` compared with its plan. Raises InputError when there is none of that name."""
    return _status_of(state.known(name), read_back)


def _status_of(found: LabState, read_back: bool) -> LabStatus:
    name = found.name
    there = netns.names()
    missing = [namespace for namespace in found.namespaces if namespace not in there]
    wrong: list[str] = []
    fabric = clos.build(found.spec)
    if read_back and found.phase == "up" and not missing:
        if not bpf.map_is_there(found.maps[PORTS_MAP]):
            wrong = ["the port map is gone, with the programs of all ports: mrclab repair"]
        else:
            with Kernel(name) as kernel, PortMap.of_id(found.maps[PORTS_MAP]) as ports:
                wrong = [str(item) for item in observe.differences(plan.build(fabric), kernel, ports)]
                if found.spec.routing == "bgp":
                    wrong += frr.differences(fabric, kernel)
    dead = agents.dead(name, found.agents)
    return LabStatus(
        lab=name,
        phase=found.phase,
        source_file=found.source_file,
        hosts=len(fabric.hosts),
        switches=len(fabric.switches),
        links=len(fabric.links),
        agents_alive=len(found.agents) - len(dead),
        agents_dead=dead,
        routers_dead=frr.dead(name, found.routers),
        namespaces_missing=missing,
        differences=wrong,
    )


def list_labs() -> tuple[list[LabStatus], list[str]]:
    """All labs of this machine, without reading their kernel state back; and of records that cannot be read, why."""
    labs, unreadable = [], []
    for name in state.names():
        try:
            found = state.load(name)
        except InputError as error:
            unreadable.append(str(error))
            continue
        if found is not None:  # else it went while we looked
            labs.append(_status_of(found, read_back=False))
    return labs, unreadable
