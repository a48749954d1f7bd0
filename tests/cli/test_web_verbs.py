"""`web` and `watch` on the command line: impossible addresses, folders without a recording, the terminal's view."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command import Mrclab, only_line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "one address, not on all"),
        (("--host", "localhost"), "is not an address"),
        (("--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        (("--port", "65536"), "65536"),
        (("--name", "localhost"), "'localhost' is not HOST:PORT; like localhost:8420"),
    ],
)
def test_an_address_that_cannot_be_is_refused_in_a_line(mrclab: Mrclab, arguments: list[str], words: str) -> None:
    answer = mrclab("web", *arguments)
    assert answer.returncode == 2
    assert words in only_line(answer)


def test_a_port_that_is_taken_is_refused_when_it_was_asked_for(mrclab: Mrclab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answer = mrclab("web", "--port", str(other.getsockname()[1]))
    assert answer.returncode == 2
    assert "Address already in use" in only_line(answer)


def test_a_forwarded_port_s_name_is_let_in_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed.cli", "web", "--port", "0", "--name", "localhost:9999"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as page:
        try:
            assert page.stdout is not None
            assert page.stdout.readline().startswith("http://localhost:9999/#token=")
            port = _port_of(page.pid)
            assert [_status(port, name) for name in ("localhost:9999", f"localhost:{port}", "localhost:9998")] == [
                200,
                200,
                403,
            ]
        finally:
            page.terminate()


def _port_of(pid: int) -> int:
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(int(line.split()[3].rpartition(":")[2]) for line in listening if f"pid={pid}," in line)


def _status(port: int, name: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/", headers={"Host": name})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_folder_without_a_recording_is_refused(mrclab: Mrclab, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = mrclab("web", "empty", "--port", "0")
    assert answer.returncode == 2
    assert "has no recording" in only_line(answer)


@pytest.mark.kernel
def test_watch_shows_the_lab_and_ends_when_told_to(mrclab: Mrclab, tiny_lab: str) -> None:
    answer = mrclab("watch", tiny_lab, "--for", "2")
    assert answer.returncode == 0, answer.stderr
    assert f"lab {tiny_lab}" in answer.stdout and "plane 1" in answer.stdout
    assert "faults in force: none" in answer.stdout


@pytest.mark.kernel
def test_watch_without_that_lab_says_that_it_waits(mrclab: Mrclab) -> None:
    answer = mrclab("watch", "no-such-lab", "--for", "1")
    assert answer.returncode == 0
    assert "no-such-lab is not up; waiting" in answer.stdout
