"""EV and congestion control profiles over an agent's control socket: `agents.mrc.profile`, `agents.mrc.cc_profile`.

A controller makes a profile, says what is in it, and puts it ONLINE; `qp-create` and `verbs-modify-qp` name it by its
number. What cannot be is answered in words, with the errno of `mrc_ctl.h`; a list of EVs is answered entry by entry.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from agents.mrc.cc_profile import CcProfile
from agents.mrc.ev_state import State
from agents.mrc.profile import EntryResult, EvEvent, EvMode, EvProfile, FormatField, ProfileState
from agents.operation import Field, Host, Operation, check_fields
from agents.request import Reply, RequestError

_U32 = (1 << 32) - 1
_MAX_PROFILES = 256
_MAX_EVENTS = 1000
_FORMAT_FIELD = {
    "width": Field(int, 1, 32),
    "max_val": Field(int, 0, _U32),
    "min_val": Field(int, 0, _U32, default=0),
    "init_val": Field(int, 0, _U32, default=0),
    "mask": Field(int, 0, _U32, default=_U32),
}
_ENTRY = {"current": Field(int, 0, _U32, default=None), "new": Field(int, 0, _U32)}
_EVENTS = {"GOOD": EvEvent.GOOD, "ASSUMED_BAD": EvEvent.ASSUMED_BAD}


def ev_profile(host: Host, number: int | None) -> EvProfile | None:
    """The EV profile of this number; None for none. Raises RequestError."""
    if number is not None and number not in host.agent.ev_profiles:
        raise RequestError(f"there is no EV profile {number}")
    return None if number is None else host.agent.ev_profiles[number]


def cc_profile(host: Host, number: int | None) -> CcProfile | None:
    """The congestion control profile of this number; None for none. Raises RequestError."""
    if number is not None and number not in host.agent.cc_profiles:
        raise RequestError(f"there is no CC profile {number}")
    return None if number is None else host.agent.cc_profiles[number]


def _ev(host: Host, request: dict[str, Any]) -> EvProfile:
    found = ev_profile(host, request["profile"])
    assert found is not None, "a number is required"
    return found


def _cc(host: Host, request: dict[str, Any]) -> CcProfile:
    found = cc_profile(host, request["profile"])
    assert found is not None, "a number is required"
    return found


def _free_number(profiles: dict[int, Any]) -> int:
    if len(profiles) >= _MAX_PROFILES:
        raise RequestError(f"{_MAX_PROFILES} profiles are all that there can be (ENOMEM)")
    return max(profiles, default=0) + 1


def _ev_create(host: Host, request: dict[str, Any], reply: Reply) -> None:
    number = _free_number(host.agent.ev_profiles)
    host.agent.ev_profiles[number] = host.agent.nic.create_ev_profile(number)
    reply.ok(profile=number)


def _ev_modify(host: Host, request: dict[str, Any], reply: Reply) -> None:
    events, rows = request["events"], request["fields"]
    _ev(host, request).modify(
        state=None if request["state"] is None else _named(ProfileState, "state", request["state"]),
        mode=None if request["mode"] is None else _named(EvMode, "mode", request["mode"]),
        count=request["count"],
        min_active=request["min_active"],
        event_mask=None if events is None else _mask(events),
        fields=None if rows is None else tuple(_format_field(row) for row in rows),
    )
    reply.ok(**_described(_ev(host, request)))


def _ev_query(host: Host, request: dict[str, Any], reply: Reply) -> None:
    profile = _ev(host, request)
    reply.ok(**_described(profile), evs=[{"ev": ev, "state": state} for ev, state in profile.evs()])


def _ev_replace(host: Host, request: dict[str, Any], reply: Reply) -> None:
    entries = [check_fields("an entry", _ENTRY, _object("entries", entry)) for entry in request["entries"]]
    reply.ok(results=_results(_ev(host, request).replace([(entry["current"], entry["new"]) for entry in entries])))


def _ev_deny(host: Host, request: dict[str, Any], reply: Reply) -> None:
    evs = request["evs"]
    if not all(type(ev) is int and 0 <= ev <= _U32 for ev in evs):
        raise RequestError("evs has to be a list of whole numbers of 32 bits")
    state = State.DENIED if request["denied"] else State.GOOD
    reply.ok(results=_results(_ev(host, request).set_state(evs, state, host.now_ns())))


def _ev_events(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok(events=[event._asdict() for event in _ev(host, request).poll_events(request["limit"])])


def _ev_destroy(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _destroy(_ev(host, request), host.agent.ev_profiles)
    reply.ok()


def _cc_create(host: Host, request: dict[str, Any], reply: Reply) -> None:
    number = _free_number(host.agent.cc_profiles)
    host.agent.cc_profiles[number] = host.agent.nic.create_cc_profile(number)
    reply.ok(profile=number)


def _cc_modify(host: Host, request: dict[str, Any], reply: Reply) -> None:
    state = None if request["state"] is None else _named(ProfileState, "state", request["state"])
    profile = _cc(host, request)
    profile.modify(state=state, algorithm=request["algorithm"], attributes=request["attributes"])
    _cc_query(host, request, reply)


def _cc_query(host: Host, request: dict[str, Any], reply: Reply) -> None:
    profile = _cc(host, request)
    reply.ok(
        state=profile.state.value,
        algorithm=profile.algorithm,
        attributes=profile.attributes(),
        queue_pairs=profile.users,
    )


def _cc_destroy(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _destroy(_cc(host, request), host.agent.cc_profiles)
    reply.ok()


def _forget(host: Host, request: dict[str, Any], reply: Reply) -> None:
    """Of both kinds those that no queue pair uses."""
    for profiles in (host.agent.ev_profiles, host.agent.cc_profiles):
        for number in [number for number, profile in profiles.items() if not profile.users]:
            del profiles[number]
    reply.ok()


def _destroy(profile: EvProfile | CcProfile, profiles: dict[int, Any]) -> None:
    if profile.state is ProfileState.ONLINE:
        raise RequestError(f"profile {profile.profile_id} is ONLINE; take it OFFLINE first (EBUSY)")
    del profiles[profile.profile_id]


def _described(profile: EvProfile) -> dict[str, Any]:
    return {
        "state": profile.state.value,
        "mode": None if profile.mode is None else profile.mode.value,
        "count": profile.count,
        "min_active": profile.min_active,
        "events": [name for name, event in _EVENTS.items() if event & profile.event_mask],
        "fields": [{**asdict(field), "mask": field.mask & (1 << field.width) - 1} for field in profile.fields],
        "queue_pairs": profile.users,
    }


def _named(kind: Any, what: str, value: str) -> Any:
    values = {member.value: member for member in kind}
    if value not in values:
        raise RequestError(f"no {what} {value!r:.80}; there are {', '.join(values)}")
    return values[value]


def _mask(names: list[Any]) -> EvEvent:
    mask = EvEvent.NONE
    for name in names:
        if not isinstance(name, str) or name not in _EVENTS:
            raise RequestError(f"no event {name!r:.80}; there are {', '.join(_EVENTS)}")
        mask |= _EVENTS[name]
    return mask


def _format_field(row: Any) -> FormatField:
    return FormatField(**check_fields("a field", _FORMAT_FIELD, _object("fields", row)))


def _object(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"each of {what} has to be an object")
    return value


def _results(results: list[EntryResult]) -> list[dict[str, Any]]:
    return [result._asdict() for result in results]


_PROFILE = {"profile": Field(int)}

PROFILE_OPERATIONS: dict[str, Operation] = {
    "ev-profile-create": Operation(_ev_create, {}),
    "ev-profile-modify": Operation(
        _ev_modify,
        {
            **_PROFILE,
            "state": Field(str, default=None),
            "mode": Field(str, default=None),
            "count": Field(int, default=None),
            "min_active": Field(int, default=None),
            "events": Field(list, default=None),
            "fields": Field(list, default=None),
        },
    ),
    "ev-profile-query": Operation(_ev_query, _PROFILE),
    "ev-profile-replace": Operation(_ev_replace, {**_PROFILE, "entries": Field(list)}),
    "ev-profile-deny": Operation(_ev_deny, {**_PROFILE, "evs": Field(list), "denied": Field(bool)}),
    "ev-profile-events": Operation(_ev_events, {**_PROFILE, "limit": Field(int, 0, _MAX_EVENTS, default=_MAX_EVENTS)}),
    "ev-profile-destroy": Operation(_ev_destroy, _PROFILE),
    "cc-profile-create": Operation(_cc_create, {}),
    "cc-profile-modify": Operation(
        _cc_modify,
        {
            **_PROFILE,
            "state": Field(str, default=None),
            "algorithm": Field(str, default=None),
            "attributes": Field(dict, default=None),
        },
    ),
    "cc-profile-query": Operation(_cc_query, _PROFILE),
    "cc-profile-destroy": Operation(_cc_destroy, _PROFILE),
    "profiles-forget": Operation(_forget, {}),
}
