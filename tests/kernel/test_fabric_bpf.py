"""eBPF programs: compiled when the source is new, loaded once, and what is missing is said with the fix."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from testbed.fabric import bpf
from testbed.topology.errors import MissingError

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]


def test_a_source_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bpf.compile_program(bpf.INGRESS_SOURCE, tmp_path)
    monkeypatch.setenv("PATH", "")  # no clang any more: what follows comes from the cache
    assert bpf.compile_program(bpf.INGRESS_SOURCE, tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    source = tmp_path / "changed.bpf.c"
    shutil.copy(bpf.INGRESS_SOURCE, source)
    first = bpf.compile_program(source, tmp_path / "cache")
    source.write_text(source.read_text() + "// changed\n")
    assert bpf.compile_program(source, tmp_path / "cache") != first


def test_a_machine_without_clang_is_told_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError) as error:
        bpf.compile_program(bpf.INGRESS_SOURCE, tmp_path)
    assert str(error.value) == "clang (compiles the eBPF programs of the ports); apt-get install clang"
    assert error.value.exit_code == 3


def test_a_source_that_does_not_compile_says_the_compilers_words(tmp_path: Path) -> None:
    source = tmp_path / "bad.bpf.c"
    source.write_text("#include <no/such/header.h>\n")
    with pytest.raises(MissingError, match=r"no/such/header\.h"):
        bpf.compile_program(source, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_program_is_in_the_kernel_until_it_is_let_go() -> None:
    with bpf.load_ingress() as program:
        assert program.fd > 0
        assert bpf.is_loaded(program.id)
    assert not bpf.is_loaded(program.id)


def test_a_file_that_is_no_program_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "no-program.o"
    path.write_bytes(os.urandom(100))
    with pytest.raises(OSError, match=r"libbpf cannot read .*no-program\.o"):
        bpf.Program(path, "mrclab_ingress")
