"""Who may ask the server for what. Without the token, for another site or name, by odd paths: nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from served import LINK, Server

from testbed.chaos import by_hand
from testbed.lab.running import RunningLab

pytestmark = [pytest.mark.kernel]

CUT = {"kind": "link-down", "target": LINK, "end": "near"}
CHANGES = [("/faults", CUT), ("/faults/clear", {}), ("/runs", {"load": 10}), ("/runs/stop", {})]


@pytest.fixture
def server(lab: RunningLab, live: Server) -> Iterator[Server]:
    """The page of the lab; after each test nothing may have changed there, and it still answers."""
    yield live
    assert by_hand.active(lab) == []
    assert live.ask("GET", "/").code == 200


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_no_change_without_the_token(server: Server, path: str, body: Any) -> None:
    token = server.token
    for wrong in ({}, {"x_mrclab_token": ""}, {"x_mrclab_token": token[:-1]}, {"x_mrclab_token": token + "x"}):
        assert server.ask("POST", path, body, **wrong).code == 403
    assert server.ask("POST", f"{path}?token={token}", body).code == 403
    assert server.ask("GET", path, x_mrclab_token=token).code == 405


@pytest.mark.parametrize("path", ["/", "/events", "/menu.json", "/metrics", "/page/main.js", "/faults"])
def test_nothing_for_another_name_or_another_site(server: Server, path: str) -> None:
    port = server.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", ""):
        answer = server.ask("POST" if path == "/faults" else "GET", path, CUT, host=host, x_mrclab_token=server.token)
        assert answer.code in (400, 403), host
    for origin in ("http://evil.example", f"https://{server.place}", "null", f"http://{server.place}.evil.example"):
        answer = server.ask(
            "POST" if path == "/faults" else "GET", path, CUT, origin=origin, x_mrclab_token=server.token
        )
        assert answer.code == 403, origin


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py", "/page/..%2f..%2f..%2fetc%2fpasswd", "/page/", "/page/index.html", "/page/main.js/",
        "/page/.", "/page/%00", "//etc/passwd", "/../../etc/passwd", "/link/", "/flow/", "/state.json",
        "/report", "/page/%ff%fe",
    ],
)  # fmt: skip
def test_odd_names_are_nowhere(server: Server, path: str) -> None:
    answer = server.ask("GET", path)
    assert answer.code == 404 and "root:" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/faults", {**CUT, "target": "p9t9-9:nowhere"}, 409),
        ("/faults", {**CUT, "target": "../../etc"}, 409),
        ("/faults", {**CUT, "kind": "no-such-kind"}, 409),
        ("/faults", {**CUT, "end": "left"}, 400),
        ("/faults", {**CUT, "target": 7}, 400),
        ("/faults", {**CUT, "more": 1}, 400),
        ("/faults", [CUT], 400),
        ("/faults/clear", {"number": 4711}, 409),
        ("/faults/clear", {"number": True}, 400),
        ("/runs", {"scenario": "../../../etc/passwd"}, 409),
        ("/runs", {"scenario": "no-such"}, 409),
        ("/runs", {"load": 0}, 409),
        ("/runs", {"load": 101}, 409),
        ("/runs", {}, 400),
        ("/runs/stop", {}, 409),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(server: Server, path: str, body: Any, code: int) -> None:
    answer = server.post(path, body)
    assert answer.code == code, answer.text
    assert answer.json["error"]


def test_a_body_that_is_too_long_or_no_json_is_refused(server: Server) -> None:
    assert server.post("/faults", {"kind": "x" * (70 << 10)}).code == 413
    assert server.ask("POST", "/faults", x_mrclab_token=server.token, content_length="0").code == 400


def test_the_page_may_load_nothing_from_elsewhere_and_nobody_may_frame_it(server: Server) -> None:
    policy = server.ask("GET", "/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_a_fault_is_put_in_and_taken_back_with_the_token(server: Server, lab: RunningLab) -> None:
    number = server.post("/faults", CUT).json["number"]
    assert [fault.number for fault in by_hand.active(lab)] == [number]
    assert server.ask("GET", f"/link/{LINK}").json["up"] is False
    assert server.post("/faults/clear", {"number": number}).json == {"undone": [number]}
    assert server.ask("GET", f"/link/{LINK}").json["up"] is True
