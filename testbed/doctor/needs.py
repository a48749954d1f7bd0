"""What each verb needs of the machine: one table. `checks` looks at it all, `require` refuses in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from testbed.doctor import limits, software, system
from testbed.doctor.row import Look, Row
from testbed.topology.errors import MissingError

_PAGE = software.modules_for(software.PAGE_MODULES)
_EXTRAS = software.modules_for(software.OPTIONAL_MODULES, "degraded")
_TESTS = (software.packages_for("test"), software.modules_for(software.TEST_MODULES))
_SPEED = software.packages_for("speed", "degraded")

_LAB: tuple[Look, ...] = (software.root, system.kernel, software.modules, software.programs, system.features)
_LIMITS: tuple[Look, ...] = (
    limits.settings, limits.memory, limits.processors, limits.open_files, limits.processes, limits.clock,
)  # fmt: skip
_TRAFFIC: tuple[Look, ...] = (*_LAB, _EXTRAS, _SPEED, software.compiled_agents)
_ROOT: tuple[Look, ...] = (software.root,)

# What each verb needs, in the order in which lacks are told. A verb that is not here needs nothing.
NEEDS: dict[str, tuple[Look, ...]] = {
    "up": (*_LAB, system.ports, system.delay, software.routing_daemons, *_LIMITS),
    "run": _TRAFFIC,
    "demo": _TRAFFIC,
    "campaign": _TRAFFIC,
    "compare": _TRAFFIC,
    "bench": _TRAFFIC,
    **dict.fromkeys(("down", "status", "exec", "fault", "repair", "watch", "health"), _ROOT),
    "cli": (software.root, software.programs),
    "capture": _ROOT,
    "web": (software.root, _PAGE),
    "replay": (_PAGE,),  # `web RUN_DIR`
    "play": (software.ansible,),
    "test": (*_TRAFFIC, _PAGE, software.ansible, *_TESTS),
}


def checks(verb: str | None = None) -> list[Row]:
    """A row for everything that `verb` needs, or that any but `test` needs; each names the verbs that need it."""
    verbs = (verb,) if verb is not None else tuple(one for one in NEEDS if one != "test")
    looks = dict.fromkeys(look for one in verbs for look in NEEDS.get(one, ()))
    return [replace(row, verbs=_verbs_of(look)) for look in looks for row in look()]


def _verbs_of(look: Look) -> tuple[str, ...]:
    return tuple(verb for verb, looks in NEEDS.items() if look in looks)


def require(verb: str) -> None:
    """Return when the machine has what `verb` needs. Raises MissingError that names what is missing, with the fix."""
    for look in NEEDS.get(verb, ()):
        refuse(look())


def refuse(rows: Iterable[Row]) -> None:
    """Raises MissingError when any of the rows says that something is missing."""
    missing = [row for row in rows if row.state == "missing"]
    if missing:
        first, *others = missing
        more = f" (also missing: {', '.join(row.name for row in others)})" if others else ""
        raise MissingError(f"{first.name} is missing: {first.found}{more}", first.purpose, fix_of(missing))


def fix_of(lacking: list[Row]) -> str:
    """One command for all of them: packages are installed together."""
    install = "apt-get install "
    first = lacking[0].fix
    if not first.startswith(install):
        return first
    packages = [row.fix.removeprefix(install) for row in lacking if row.fix.startswith(install)]
    return install + " ".join(dict.fromkeys(packages))
