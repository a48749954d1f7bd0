"""Puts a page on an address: the socket, the token, and the server until a signal ends it."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from testbed.report import recording
from testbed.topology.errors import InputError
from testbed.web.server import live_app, replay_app

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8420

_LEAVE_WITHIN_S = 1  # for viewers, who would stay for ever
_BACKLOG = 64


@dataclass(frozen=True)
class Site:
    """Where the page is, and what whoever may change something has to know."""

    listening: socket.socket
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    also: tuple[str, ...] = ()  # further HOST:PORT that browsers may call it by: a port forwarded to this one

    @property
    def hosts(self) -> list[str]:
        """What a browser may call this server."""
        host, port = self.listening.getsockname()[:2]
        address = ip_address(host)
        names = [f"[{host}]" if address.version == 6 else host, *(["localhost"] if address.is_loopback else [])]
        return [*(f"{name}:{port}" for name in names), *self.also]

    @property
    def address(self) -> str:
        """For the browser; the token stands where it is not sent to any server."""
        return f"http://{(*self.also, *self.hosts)[0]}/#token={self.token}"


def listen(host: str, port: int, *, or_any: bool = False) -> socket.socket:
    """A listening socket; with `or_any` on a free port when that one is taken.

    Raises InputError for what is no address of this machine, and for all of them at once: a page has to know its own
    name, or another site could pass for it.
    """
    try:
        address = ip_address(host)
    except ValueError:
        raise InputError(f"{host!r} is not an address", "like 127.0.0.1, the default") from None
    if address.is_unspecified:
        raise InputError("a page listens on one address, not on all", "name the address that browsers will use")
    listening = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listening.bind((host, port))
        except OSError:
            if not or_any:
                raise
            listening.bind((host, 0))
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    listening.listen(_BACKLOG)
    return listening


def browser_name(text: str) -> str:
    """`text` where it is HOST:PORT, as in a Host header. Raises InputError otherwise."""
    if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}", text):
        raise InputError(f"{text!r} is not HOST:PORT", "like localhost:8420")
    return text.lower()


def live(site: Site, name: str | None, runs_dir: Path) -> None:
    """Serve the page of a lab until a signal comes. For the main thread."""
    _serve(site, live_app(name, site.token, site.hosts, runs_dir))


def replay(site: Site, run_dir: Path) -> None:
    """Serve the replay of a recorded run likewise. Raises InputError when there is none in the folder."""
    _serve(site, replay_app(recording.load(run_dir), site.token, site.hosts))


@contextlib.contextmanager
def beside(name: str, runs_dir: Path) -> Iterator[Site]:
    """The page of a lab, served in a thread of its own while the caller goes on with something else."""
    site = Site(listen(LOOPBACK, DEFAULT_PORT, or_any=True))
    server = _server(live_app(name, site.token, site.hosts, runs_dir))
    thread = threading.Thread(target=server.run, args=([site.listening],), name="page", daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.should_exit = True
        thread.join()


def _serve(site: Site, app: Starlette) -> None:
    _server(app).run([site.listening])


def _server(app: Starlette) -> uvicorn.Server:
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=_LEAVE_WITHIN_S
    )
    return uvicorn.Server(config)
