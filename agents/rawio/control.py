"""The agent's unix socket: JSON lines, a request `{"op": ..., ...}` and an answer `{"ok": true, ...}` each.

Requests of one client are answered one after the other; the next is read only when the answer to the last is out, so
that a client that does not read costs one answer of memory and no time. A request that makes no sense gets
`{"ok": false, "error": ...}`, and what is not a line of JSON at all also ends the connection.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from agents.request import RequestError

_LOG = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 1 << 20
_MAX_CLIENTS = 64
_READ_BYTES = 64 << 10


class Watcher(Protocol):
    """The part of `agents.rawio.loop.Loop` that waits for file descriptors."""

    def watch(self, fd: int, mask: int, callback: Callable[[int], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...


class Reply:
    """Where the answer to one request goes; it may be given later. Only the first answer counts."""

    def __init__(self, client: _Client) -> None:
        self._client: _Client | None = client

    def ok(self, **fields: Any) -> None:
        """Answer with these fields."""
        self._send({"ok": True, **fields})

    def fail(self, error: str) -> None:
        """Answer that it could not be done, and why."""
        self._send({"ok": False, "error": error})

    def _send(self, answer: dict[str, Any]) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.answer(answer)


Handler = Callable[[dict[str, Any], Reply], None]


class ControlServer:
    """Listens on `path` (made with mode 0600), and hands each request to `handler`, which answers through the reply."""

    def __init__(self, path: str | Path, handler: Handler) -> None:
        self.path = Path(path)
        self._handler = handler
        self._watcher: Watcher | None = None
        self._clients: set[_Client] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        _remove_a_dead_agents_socket(self.path)
        old_mask = os.umask(0o177)
        try:
            self._listener.bind(str(self.path))
        finally:
            os.umask(old_mask)
        self._listener.listen(_MAX_CLIENTS)

    def start(self, watcher: Watcher) -> None:
        """Serve from now on; clients that connected earlier have waited."""
        self._watcher = watcher
        watcher.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def close(self) -> None:
        """End all connections and take the socket's file away."""
        for client in list(self._clients):
            client.flush()
            client.close()
        if self._watcher is not None:
            self._watcher.unwatch(self._listener.fileno())
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _accept(self, _mask: int) -> None:
        assert self._watcher is not None
        with suppress(OSError):  # the client has gone again, or there are no file descriptors left
            connection, _ = self._listener.accept()
            if len(self._clients) >= _MAX_CLIENTS:
                connection.close()
                return
            self._clients.add(_Client(connection, self._watcher, self._handler, self._clients.discard))


def _remove_a_dead_agents_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        try:
            visitor.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            return  # there is none, or one that `bind` will complain about


class _Client:
    """One connection. It reads, or waits for the handler's answer, or writes the answer: never two of these."""

    def __init__(
        self, connection: socket.socket, watcher: Watcher, handler: Handler, forget: Callable[[_Client], None]
    ) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._fd = connection.fileno()
        self._watcher = watcher
        self._handler = handler
        self._forget = forget
        self._input = bytearray()
        self._output = memoryview(b"")
        self._waiting_for_answer = False
        self._end_after_output = False
        self._closed = False
        self._serving = False
        self._watch()

    def answer(self, answer: dict[str, Any]) -> None:
        """Write an answer, then go on with the next request."""
        if self._closed:
            return
        self._waiting_for_answer = False
        self._output = memoryview(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
        self.flush()
        self._serve()

    def flush(self) -> None:
        """Write as much of the answer as the client takes."""
        try:
            while self._output:
                self._output = self._output[self._connection.send(self._output) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if self._end_after_output:
            self.close()

    def close(self) -> None:
        """End the connection; an answer that is still to come goes nowhere."""
        if not self._closed:
            self._closed = True
            self._watcher.unwatch(self._fd)
            self._connection.close()
            self._forget(self)

    def _watch(self) -> None:
        if self._closed:
            return
        mask = select.EPOLLOUT if self._output else 0 if self._waiting_for_answer else select.EPOLLIN
        self._watcher.watch(self._fd, mask, self._ready)

    def _ready(self, mask: int) -> None:
        if mask & (select.EPOLLERR | select.EPOLLHUP) and not mask & select.EPOLLIN:
            self.close()
            return
        if mask & select.EPOLLOUT:
            self.flush()
        if mask & select.EPOLLIN:
            self._read()
        self._serve()

    def _read(self) -> None:
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._input += data

    def _serve(self) -> None:
        """Do what has been asked for up to the first request whose answer takes time, then wait for what is needed."""
        if self._serving:
            return  # an answer that was given at once: the loop below is at work already
        self._serving = True
        self._serve_lines()
        self._serving = False
        self._watch()

    def _serve_lines(self) -> None:
        while not (self._closed or self._output or self._waiting_for_answer):
            end = self._input.find(b"\n")
            if end < 0:
                if len(self._input) > MAX_REQUEST_BYTES:
                    self._refuse(f"a request is longer than {MAX_REQUEST_BYTES} bytes")
                return
            line = bytes(self._input[:end])
            del self._input[: end + 1]
            self._request(line)

    def _request(self, line: bytes) -> None:
        self._waiting_for_answer = True
        reply = Reply(self)
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(f"not a line of JSON: {error}")
            return
        if not isinstance(request, dict):
            reply.fail("a request is a JSON object")
            return
        try:
            self._handler(request, reply)
        except RequestError as error:
            reply.fail(str(error))
        except Exception as error:
            # Whatever a request brings about, the traffic of the other flows goes on.
            _LOG.exception("request %s", str(request.get("op"))[:100])
            reply.fail(f"the agent failed on this: {type(error).__name__}: {error}")

    def _refuse(self, error: str) -> None:
        self._end_after_output = True
        self.answer({"ok": False, "error": error})
