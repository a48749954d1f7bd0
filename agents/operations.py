"""What can be asked of an agent over its control socket: a table of operations, and a function for each.

The engine checks the fields of a request against the table before the function sees them; what is wrong is answered in
words. Times are ns of the agent's clock (CLOCK_MONOTONIC in a process, virtual in the simulator), loads payload bits
per second, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, asdict, fields, replace
from typing import Any

from agents.agent import Connection
from agents.mrc.config import MrcConfig
from agents.mrc.qp import MrcQueuePair
from agents.operation import Field, Host, Operation, check_fields
from agents.profile_operations import PROFILE_OPERATIONS, cc_profile, ev_profile
from agents.request import Reply, RequestError
from agents.roce.config import RoceConfig
from agents.telemetry import counters_of
from agents.transport import QpStateError
from agents.verb_operations import VERB_OPERATIONS
from agents.wire import address
from agents.workloads.base import Workload
from agents.workloads.channel import Channel, Lane
from agents.workloads.numbers import MAX_RANKS
from agents.workloads.pattern import MAX_MESSAGE_BYTES, Pattern
from agents.workloads.programs import KINDS, Job
from agents.workloads.rank import RankCounters, RankWorkload
from agents.workloads.write_bw import Offer, Target, WriteBwReceiver, WriteBwSender

_MAX_REGION_BYTES = 1 << 30
_MAX_PROBES = 4096
_MAX_ENTRIES = 1000  # of samples and of events in one answer: it is made between two packets
_NS_PER_MS = 1_000_000


_QPN = Field(int, 0, (1 << 24) - 1)


def _option(default: Any) -> Field:
    return Field(int if default is None else type(default), default=default)


def _options(config: type[MrcConfig] | type[RoceConfig]) -> dict[str, Field]:
    return {
        field.name: _option(field.default if field.default_factory is MISSING else field.default_factory())
        for field in fields(config)
        if field.name not in _DERIVED
    }


_DERIVED = {"parameters"}  # of RoCE: what its DCQCN profile says, in the lab's time and rates

# The settings of a queue pair that a request may change, by transport, each of the type that its default has.
_OPTIONS = {"mrc": _options(MrcConfig), "roce": _options(RoceConfig)}


def _hello(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok(
        name=host.name,
        host=host.agent.nic.config.host,
        now_ns=host.now_ns(),
        **host.identity(),
        qps=list(host.agent.connections),
    )


def _probe(host: Host, request: dict[str, Any], reply: Reply) -> None:
    evs = request["evs"]
    if not 1 <= len(evs) <= _MAX_PROBES or not all(type(ev) is int and 0 <= ev < 1 << 32 for ev in evs):
        raise RequestError(f"evs has to be a list of 1..{_MAX_PROBES} whole numbers of 32 bits")
    now = host.now_ns()
    host.agent.probe(request["peer"], evs, now, now + request["timeout_ns"], lambda results: reply.ok(results=results))


def _qp_create(host: Host, request: dict[str, Any], reply: Reply) -> None:
    options, transport = request["options"], request["transport"]
    if transport not in _OPTIONS:
        raise RequestError(f"no transport {transport!r:.80}; there are {', '.join(_OPTIONS)}")
    unknown = set(options) - set(_OPTIONS[transport])
    if unknown:
        raise RequestError(f"no such option of a queue pair: {', '.join(sorted(unknown))}")
    for name in options:
        _OPTIONS[transport][name].check(name, options)
    evs, control = ev_profile(host, request["ev_profile"]), cc_profile(host, request["cc_profile"])
    if transport != "mrc" and (evs or control):
        raise RequestError(f"profiles are for MRC, not for {transport}")
    connection = host.agent.create_qp(
        request["peer"], options, request["region_bytes"], transport, ev_profile=evs, cc_profile=control
    )
    region = connection.region
    reply.ok(
        qpn=connection.qp.qpn,
        psn=connection.qp.start_psn,
        rkey=region.rkey,
        address=region.address,
        size=len(region.buffer),
    )


def _qp_connect(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _connection(host, request)
    host.agent.nic.connect(request["qpn"], request["remote_qpn"], request["remote_psn"])
    reply.ok()


def _qp_destroy(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _connection(host, request)
    host.agent.destroy_qp(request["qpn"])
    reply.ok()


def _workload_start(host: Host, request: dict[str, Any], reply: Reply) -> None:
    connection = _connection(host, request)
    role, kind = request["role"], request["kind"]
    if kind != "write_bw" or role not in _ROLES:
        raise RequestError(f"no workload {kind!r} with role {role!r}; there is write_bw with {' or '.join(_ROLES)}")
    workload = _ROLES[role](connection, request, host.now_ns())
    if any(type(one) is type(workload) for one in connection.workloads.values()):
        raise RequestError(f"queue pair {request['qpn']} has or had a {role} workload; make another queue pair")
    reply.ok(workload=host.agent.add_workload(connection, workload))


def _sender(connection: Connection, request: dict[str, Any], now: int) -> Workload:
    remote = {name: request[name] for name in ("address", "rkey", "size")}
    missing = [name for name, value in remote.items() if value is None]
    if missing:
        raise RequestError(f"a sender needs {', '.join(missing)}: the receiver's, from its qp-create")
    start = request["start_at_ns"]
    offer = Offer(request["load_bps"], now if start is None else start, request["stop_at_ns"], request["outstanding"])
    pattern = Pattern(request["seed"], request["message_bytes"])
    return WriteBwSender(connection.qp, pattern, Target(request["address"], request["rkey"], request["size"]), offer)


def _receiver(connection: Connection, request: dict[str, Any], now: int) -> Workload:
    pattern = Pattern(request["seed"], request["message_bytes"])
    return WriteBwReceiver(connection.qp.qpn, pattern, connection.region.buffer)


_ROLES: dict[str, Callable[[Connection, dict[str, Any], int], Workload]] = {"send": _sender, "receive": _receiver}


_JOB = {
    "kind": Field(str),
    "ranks": Field(int),
    "message_bytes": Field(int, 1, MAX_MESSAGE_BYTES),
    "operations": Field(int),
    "seed": Field(int),
    "compute_ns": Field(int, default=0),
    "first": Field(int, default=0),
}
_LINK = {
    "rank": Field(int, 0, MAX_RANKS - 1),
    "qpn": _QPN,
    "address": Field(int),
    "rkey": Field(int),
    "size": Field(int, 1),
}


def _rank_start(host: Host, request: dict[str, Any], reply: Reply) -> None:
    job = Job(**{name: request[name] for name in _JOB})
    rank = request["rank"]
    lanes: dict[int, list[Lane]] = {}
    connections = []
    for link in request["links"]:
        if not isinstance(link, dict):
            raise RequestError("each of links has to be an object")
        checked = check_fields("a link", _LINK, link)
        connections.append(_connection(host, checked))
        target = Target(checked["address"], checked["rkey"], checked["size"])
        lanes.setdefault(checked["rank"], []).append(Lane(connections[-1].qp, connections[-1].region.buffer, target))
    wanted = {b if a == rank else a for a, b in KINDS[job.kind].pairs(job) if rank in (a, b)}
    if not wanted or set(lanes) != wanted:
        raise RequestError(f"rank {rank} of {job.kind} needs links to the ranks {sorted(wanted)}, not {sorted(lanes)}")
    channels = {other: Channel(several) for other, several in lanes.items()}
    counters = RankCounters()
    workload = RankWorkload(rank, channels, KINDS[job.kind].program(job, rank, counters), counters)
    reply.ok(workload=host.agent.add_workload(connections[0], workload, *connections[1:]))


def _rank_release(host: Host, request: dict[str, Any], reply: Reply) -> None:
    for workload in _workloads(host, request).values():
        if not isinstance(workload, RankWorkload):
            raise RequestError("this workload is no rank")
        workload.release(host.now_ns())
    reply.ok()


def _workload_stop(host: Host, request: dict[str, Any], reply: Reply) -> None:
    for workload in _workloads(host, request).values():
        workload.stop(host.now_ns())
    reply.ok()


def _workload_status(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok(
        workloads=[
            {"workload": number, "qpn": one.qpn, "drained": one.done, **_report(one, request["brief"])}
            for number, one in _workloads(host, request).items()
        ]
    )


def _report(workload: Workload, brief: bool) -> dict[str, Any]:
    """A long job's times are many, and an answer is made between two packets."""
    return {name: value for name, value in workload.report().items() if not (brief and name == "times")}


def _collect(host: Host, request: dict[str, Any], reply: Reply) -> None:
    logs = {"samples": host.agent.telemetry.samples, "events": host.agent.telemetry.events}
    answer: dict[str, Any] = {"more": False}
    for name, log in logs.items():
        entries, after, missed = log.read(request[f"{name}_from"], request["limit"])
        answer |= {name: entries, f"{name}_next": after, f"{name}_missed": missed, f"{name}_end": log.end}
        answer["more"] |= after < log.end
    reply.ok(**answer, totals=_totals(host))


def _totals(host: Host) -> dict[str, Any]:
    """Counts since the agent was started."""
    return {
        "now_ns": host.now_ns(),
        **host.totals(),
        "packets_refused": dict(host.agent.nic.errors),
        "qps": [
            {
                "qpn": qpn,
                "peer": one.qp.peer_host,
                "remote_qpn": one.qp.remote_qpn,
                **counters_of(one.qp),
                "packets_refused": dict(one.qp.refused),
            }
            for qpn, one in host.agent.connections.items()
        ],
    }


def _sample_interval(host: Host, request: dict[str, Any], reply: Reply) -> None:
    host.agent.telemetry.set_interval(request["interval_ns"], host.now_ns())
    reply.ok()


def _ev_map(host: Host, request: dict[str, Any], reply: Reply) -> None:
    queue_pair = _connection(host, request).qp
    reply.ok(peer=queue_pair.peer_host, evs=[info._asdict() for info in queue_pair.ev_map()])


def _denylist(host: Host, request: dict[str, Any], reply: Reply) -> None:
    queue_pair, change = _connection(host, request).qp, request["evs"]
    if not isinstance(queue_pair, MrcQueuePair):
        raise RequestError(f"queue pair {request['qpn']} has no denylist: it takes one path")
    known = {info.ev for info in queue_pair.ev_map()}
    if not all(type(ev) is int and ev in known for ev in change):
        raise RequestError(f"evs has to be a list of EVs of queue pair {request['qpn']}")
    for ev in change:
        (queue_pair.deny if request["denied"] else queue_pair.allow)(ev, host.now_ns())
    reply.ok()


def _health(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok(report=host.agent.nic.prober.report(host.now_ns()).as_dict())


def _health_set(host: Host, request: dict[str, Any], reply: Reply) -> None:
    nic = host.agent.nic
    now = nic.prober.settings
    given = {name: value for name, value in request.items() if value is not None}
    nic.set_health(replace(now, **given), host.now_ns())
    reply.ok(before=asdict(now))


def _health_share(host: Host, request: dict[str, Any], reply: Reply) -> None:
    shares = request["t1s"]
    if not all(isinstance(one, list) and all(type(t1) is int for t1 in one) for one in shares):
        raise RequestError("t1s has to be a list of T1 numbers for each plane")
    host.agent.nic.prober.share(dict(enumerate(shares)), host.now_ns())
    reply.ok()


def _shutdown(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok()
    host.stop()


OPERATIONS: dict[str, Operation] = {
    "hello": Operation(_hello, {}),
    "probe": Operation(
        _probe,
        {
            "peer": Field(int, 0, address.MAX_HOSTS - 1),
            "evs": Field(list),
            "timeout_ns": Field(int, _NS_PER_MS, 60_000 * _NS_PER_MS, default=1000 * _NS_PER_MS),
        },
    ),
    "qp-create": Operation(
        _qp_create,
        {
            "peer": Field(int, 0, address.MAX_HOSTS - 1),
            "transport": Field(str, default="mrc"),
            "options": Field(dict, default={}),
            "ev_profile": Field(int, default=None),
            "cc_profile": Field(int, default=None),
            "region_bytes": Field(int, 1, _MAX_REGION_BYTES, default=1 << 20),
        },
    ),
    "qp-connect": Operation(_qp_connect, {"qpn": _QPN, "remote_qpn": _QPN, "remote_psn": Field(int, 0, (1 << 24) - 1)}),
    "qp-destroy": Operation(_qp_destroy, {"qpn": _QPN}),
    "workload-start": Operation(
        _workload_start,
        {
            "kind": Field(str),
            "role": Field(str),
            "qpn": _QPN,
            "message_bytes": Field(int, 1, MAX_MESSAGE_BYTES),
            "seed": Field(int),
            "address": Field(int, default=None),
            "rkey": Field(int, default=None),
            "size": Field(int, default=None),
            "load_bps": Field(int, 1, default=None),
            "start_at_ns": Field(int, default=None),
            "stop_at_ns": Field(int, default=None),
            "outstanding": Field(int, 1, default=None),
        },
    ),
    "rank-start": Operation(_rank_start, {**_JOB, "rank": Field(int, 0, MAX_RANKS - 1), "links": Field(list)}),
    "rank-release": Operation(_rank_release, {"workload": Field(int)}),
    "workload-stop": Operation(_workload_stop, {"workload": Field(int, default=None)}),
    "workload-status": Operation(
        _workload_status, {"workload": Field(int, default=None), "brief": Field(bool, default=False)}
    ),
    "collect": Operation(
        _collect,
        {
            "samples_from": Field(int, default=0),
            "events_from": Field(int, default=0),
            "limit": Field(int, 0, _MAX_ENTRIES, default=_MAX_ENTRIES),
        },
    ),
    "sample-interval": Operation(_sample_interval, {"interval_ns": Field(int)}),
    "ev-map": Operation(_ev_map, {"qpn": _QPN}),
    "denylist": Operation(_denylist, {"qpn": _QPN, "evs": Field(list), "denied": Field(bool)}),
    "health": Operation(_health, {}),
    "health-set": Operation(
        _health_set,
        {
            "interval_ns": Field(int, default=None),
            "policy": Field(str, default=None),
            "loss_bound": Field(float, default=None),
            "hold_intervals": Field(int, default=None),
        },
    ),
    "health-share": Operation(_health_share, {"t1s": Field(list)}),
    "shutdown": Operation(_shutdown, {}),
    **VERB_OPERATIONS,
    **PROFILE_OPERATIONS,
}


def perform(host: Host, request: dict[str, Any], reply: Reply) -> None:
    """Do what a request asks for. Raises RequestError for what makes no sense."""
    name = request.get("op")
    operation = OPERATIONS.get(name) if isinstance(name, str) else None
    if operation is None:
        raise RequestError(f"no operation {name!r:.80}; there are {', '.join(OPERATIONS)}")
    given = {field: value for field, value in request.items() if field != "op"}
    checked = check_fields(str(name), operation.fields, given)
    try:
        operation.run(host, checked, reply)
    except (ValueError, TypeError, QpStateError) as error:
        raise RequestError(str(error)) from error


def _connection(host: Host, request: dict[str, Any]) -> Connection:
    connection = host.agent.connections.get(request["qpn"])
    if connection is None:
        raise RequestError(f"there is no queue pair {request['qpn']}")
    return connection


def _workloads(host: Host, request: dict[str, Any]) -> dict[int, Workload]:
    workloads, number = host.agent.workloads(), request["workload"]
    if number is None:
        return workloads
    if number not in workloads:
        raise RequestError(f"there is no workload {number}")
    return {number: workloads[number]}
