"""agents.rawio.control: whatever a client does, the agent goes on and the other clients are served."""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from idle import IdleApplication, IdleNic

from agents.rawio.control import MAX_REQUEST_BYTES, ControlServer, Reply
from agents.rawio.loop import Loop
from agents.request import RequestError


class Agent:
    """A control server on a loop that turns while the test waits for something."""

    def __init__(self, path: Path) -> None:
        self.later: list[Reply] = []
        self.handled: list[dict[str, Any]] = []
        self.loop = Loop(IdleNic(), [], IdleApplication())
        self.server = ControlServer(path, self.handle)
        self.server.start(self.loop)

    def handle(self, request: dict[str, Any], reply: Reply) -> None:
        self.handled.append(request)
        match request.get("op"):
            case "echo":
                reply.ok(text=request["text"])
            case "long":
                reply.ok(text="x" * request["size"])
            case "later":
                self.later.append(reply)
            case "refuse":
                raise RequestError("not today")
            case _:
                raise ZeroDivisionError("a mistake of our own")

    def turn_until(self, condition: Callable[[], object], seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the agent did nothing"
            self.loop.turn()


class Client:
    """A connection that never blocks the test."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(agent.server.path))
        self.socket.setblocking(False)
        self.received = b""
        self.ended = False

    def send(self, *requests: object) -> None:
        self.send_bytes(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    def send_bytes(self, data: bytes) -> None:
        view = memoryview(data)

        def sent() -> bool:
            nonlocal view
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True
            return not view

        self.agent.turn_until(sent)

    def answers(self, count: int) -> list[dict[str, Any]]:
        """The next answers, waited for; fewer when the agent ends the connection."""

        def there() -> bool:
            try:
                data = self.socket.recv(1 << 20)
                self.ended = not data
                self.received += data
            except BlockingIOError:
                pass
            except ConnectionResetError:
                self.ended = True
            return self.ended or self.received.count(b"\n") >= count

        self.agent.turn_until(there)
        *lines, self.received = self.received.split(b"\n", count)
        return [json.loads(line) for line in lines]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "agent.sock")
    yield agent
    agent.server.close()
    agent.loop.close()


def test_only_the_owner_may_connect(agent: Agent) -> None:
    assert stat.S_IMODE(agent.server.path.stat().st_mode) == 0o600


def test_answers_come_in_the_order_of_the_requests_even_when_one_takes_its_time(agent: Agent) -> None:
    client = Client(agent)
    client.send({"op": "echo", "text": "1"}, {"op": "later"}, {"op": "echo", "text": "2"})
    assert client.answers(1) == [{"ok": True, "text": "1"}]
    agent.turn_until(lambda: agent.later)
    assert len(agent.handled) == 2, "the third request was begun before the second was answered"
    agent.later.pop().ok(text="late")
    assert client.answers(2) == [{"ok": True, "text": "late"}, {"ok": True, "text": "2"}]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"op": "refuse"}, "not today"),
        ({"op": "anything"}, "the agent failed on this: ZeroDivisionError: a mistake of our own"),
        ({"op": "echo"}, "the agent failed on this: KeyError: 'text'"),
        ([1, 2], "a request is a JSON object"),
        ("text", "a request is a JSON object"),
    ],
)
def test_a_bad_request_is_answered_and_the_next_one_served(agent: Agent, request_: object, error: str) -> None:
    client = Client(agent)
    client.send(request_, {"op": "echo", "text": "still here"})
    assert client.answers(2) == [{"ok": False, "error": error}, {"ok": True, "text": "still here"}]


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff\n", b"{\n", b"GET / HTTP/1.1\r\n\r\n", b"[" * 100_000 + b"\n", b"x" * (MAX_REQUEST_BYTES + 100_000)],
)
def test_what_is_no_request_at_all_ends_its_connection_and_no_other(agent: Agent, data: bytes) -> None:
    good, bad = Client(agent), Client(agent)
    bad.send_bytes(data)
    answers = bad.answers(2)
    assert bad.ended
    assert len(answers) <= 1 and not any(answer["ok"] for answer in answers)
    good.send({"op": "echo", "text": "still here"})
    assert good.answers(1) == [{"ok": True, "text": "still here"}]


def test_a_client_that_does_not_read_holds_nobody_up_and_costs_one_answer(agent: Agent) -> None:
    lazy, other = Client(agent), Client(agent)
    lazy.send(*[{"op": "long", "size": 4_000_000}] * 5)
    other.send({"op": "echo", "text": "quick"})
    assert other.answers(1) == [{"ok": True, "text": "quick"}]
    assert [request["op"] for request in agent.handled].count("long") == 1
    assert [len(answer["text"]) for answer in lazy.answers(5)] == [4_000_000] * 5


def test_a_client_whose_answer_is_still_to_come_cannot_fill_the_agents_memory(agent: Agent) -> None:
    client = Client(agent)
    client.send({"op": "later"})
    agent.turn_until(lambda: agent.later)
    taken = 0
    for _ in range(25):
        try:
            taken += client.socket.send(b"x" * (1 << 20))
        except BlockingIOError:
            agent.loop.turn()
    assert taken < 1 << 19


def test_many_requests_at_once_are_all_answered(agent: Agent) -> None:
    client = Client(agent)
    client.send(*[{"op": "echo", "text": number} for number in range(3000)])
    assert [answer["text"] for answer in client.answers(3000)] == list(range(3000))


def test_a_client_that_goes_away_while_it_waits_is_forgotten(agent: Agent) -> None:
    leaver, other = Client(agent), Client(agent)
    leaver.send({"op": "later"})
    agent.turn_until(lambda: agent.later)
    leaver.socket.close()
    other.send({"op": "echo", "text": "1"})
    other.answers(1)
    agent.later.pop().ok()
    other.send({"op": "echo", "text": "2"})
    assert other.answers(1) == [{"ok": True, "text": "2"}]


def test_a_request_may_come_in_pieces(agent: Agent) -> None:
    client = Client(agent)
    for byte in b'{"op": "echo", "text": "slow"}\n':
        client.send_bytes(bytes([byte]))
    assert client.answers(1) == [{"ok": True, "text": "slow"}]


def test_the_socket_goes_with_the_server_and_a_dead_agents_socket_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    server = ControlServer(path, lambda request, reply: reply.ok())
    with pytest.raises(OSError, match="in use"):
        ControlServer(path, lambda request, reply: reply.ok())
    assert path.exists()
    server.close()
    assert not path.exists()
