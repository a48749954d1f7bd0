"""The doctor with and without privileges, on the kernel that runs the tests: tried for real, nothing stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import doctor, scratch
from testbed.doctor import system
from testbed.topology.errors import MissingError

pytestmark = pytest.mark.kernel

_NOBODY = 65534


def in_a_child(act: Callable[[], object]) -> object:
    """What `act` returns in a process of its own, which may give up privileges for good."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def as_nobody(act: Callable[[], object]) -> object:
    def without_root() -> object:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
        return act()

    return in_a_child(without_root)


def refusal() -> list[object]:
    try:
        doctor.require("up")
    except MissingError as error:
        return [error.exit_code, str(error)]
    return [0, ""]


def test_this_machine_can_do_what_a_lab_needs_and_is_left_as_it_was() -> None:
    before = os.listdir("/sys/class/net"), os.readlink("/proc/self/ns/net")
    assert scratch.try_features() == dict.fromkeys(scratch.FEATURES, "")
    assert (os.listdir("/sys/class/net"), os.readlink("/proc/self/ns/net")) == before
    doctor.require("up")


def test_what_the_kernel_refuses_is_missing_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    # A uN on a device that nobody has made yet: the kernel refuses it, as one without uN would.
    first = "SRv6 uN"
    monkeypatch.setattr(scratch, "FEATURES", {first: scratch.FEATURES[first], **scratch.FEATURES})
    monkeypatch.setitem(doctor.NEEDS, "up", (system.features,))
    with pytest.raises(MissingError) as refused:
        doctor.require("up")
    assert str(refused.value).startswith(
        "SRv6 uN is missing: route fcbb:bb00:800::/48: no such device (what switches run"
    )
    assert refused.value.fix == system.NEW_KERNEL


def test_without_root_it_looks_as_far_as_it_can_and_condemns_nothing_else() -> None:
    rows = as_nobody(lambda: [(row.name, row.state) for row in doctor.checks("up")])
    assert isinstance(rows, list)
    states = dict(rows)
    assert states.pop("root") == "missing"
    assert "missing" not in states.values()
    assert states["clang"] == "OK"


def test_without_root_up_is_refused_before_anything_begins() -> None:
    refused = as_nobody(refusal)
    assert isinstance(refused, list)
    code, words = refused
    assert code == 3 and words.startswith(
        "root is missing: running as user 65534 (namespaces, links and raw sockets); "
    )


def test_root_that_may_make_no_namespace_is_told_so() -> None:
    # As in a container without privileges: root by name, without CAP_SYS_ADMIN.
    program = (
        "from testbed.doctor import system; row, = system.features(); print(row.state, row.found, row.fix, sep='|')"
    )
    bounded = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    root = Path(scratch.__file__).parents[1]
    done = subprocess.run(
        [*bounded, sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root
    )
    state, found, fix = done.stdout.strip().split("|")
    assert (state, found) == ("missing", "not allowed to make a network namespace: operation not permitted")
    assert "CAP_SYS_ADMIN" in fix
