"""eBPF programs: compiled when the source is new, loaded once, and what is missing is said with the fix."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from testbed.fabric import bpf
from testbed.fabric.plan import INGRESS_PROGRAM
from testbed.fabric.programs import INGRESS_SOURCE, PORT_SOURCE, PORTS_MAP
from testbed.topology.errors import MissingError

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]


def test_a_source_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bpf.compile_program(INGRESS_SOURCE, tmp_path)
    monkeypatch.setenv("PATH", "")  # no clang any more: what follows comes from the cache
    assert bpf.compile_program(INGRESS_SOURCE, tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    source = tmp_path / "changed.bpf.c"
    shutil.copy(INGRESS_SOURCE, source)
    first = bpf.compile_program(source, tmp_path / "cache")
    source.write_text(source.read_text() + "// changed\n")
    assert bpf.compile_program(source, tmp_path / "cache") != first


def test_a_machine_without_clang_is_told_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError) as error:
        bpf.compile_program(INGRESS_SOURCE, tmp_path)
    assert str(error.value) == "clang (compiles the eBPF programs of the ports); apt-get install clang"
    assert error.value.exit_code == 3


def test_a_source_that_does_not_compile_says_the_compilers_words(tmp_path: Path) -> None:
    source = tmp_path / "bad.bpf.c"
    source.write_text("#include <no/such/header.h>\n")
    with pytest.raises(MissingError, match=r"no/such/header\.h"):
        bpf.compile_program(source, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_program_is_in_the_kernel_until_it_is_let_go() -> None:
    with bpf.BpfObject(bpf.compile_program(INGRESS_SOURCE), [INGRESS_PROGRAM], {}) as loaded:
        program = loaded.program_id(INGRESS_PROGRAM)
        assert bpf.is_loaded(program)
    assert not bpf.is_loaded(program)


@pytest.mark.parametrize("program", ["mrclab_port", "mrclab_port_virtual"])
def test_both_programs_of_a_port_pass_the_verifier_and_their_map_has_the_size_asked_for(program: str) -> None:
    with bpf.BpfObject(bpf.compile_program(PORT_SOURCE), [program], {PORTS_MAP: 300}) as loaded:
        number = loaded.map_id(PORTS_MAP)
        assert bpf.fd_info(loaded.map_fd(PORTS_MAP))["max_entries"] == 300
        assert bpf.is_loaded(loaded.program_id(program))
        assert bpf.map_is_there(number)
    deadline = time.monotonic() + 5
    while bpf.map_is_there(number):  # the kernel frees it when no CPU can look at it any more
        assert time.monotonic() < deadline
    with pytest.raises(FileNotFoundError):
        bpf.open_map(number)


def test_a_file_that_is_no_program_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "no-program.o"
    path.write_bytes(os.urandom(100))
    with pytest.raises(OSError, match=r"libbpf cannot read .*no-program\.o"):
        bpf.BpfObject(path, [INGRESS_PROGRAM], {})
