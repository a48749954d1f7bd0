"""Puts a page on an address: the socket, the token, and the server until a signal ends it."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from testbed.report import recording
from testbed.topology.errors import InputError
from testbed.web.server import live_app, replay_app

_LEAVE_WITHIN_S = 1  # for viewers, who would stay for ever
_BACKLOG = 64


@dataclass(frozen=True)
class Site:
    """Where the page is, and what whoever may change something has to know."""

    listening: socket.socket
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def hosts(self) -> list[str]:
        """What a browser may call this server."""
        host, port = self.listening.getsockname()[:2]
        address = ip_address(host)
        names = [f"[{host}]" if address.version == 6 else host, *(["localhost"] if address.is_loopback else [])]
        return [f"{name}:{port}" for name in names]

    @property
    def address(self) -> str:
        """For the browser; the token stands where it is not sent to any server."""
        return f"http://{self.hosts[0]}/#token={self.token}"


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


def live(site: Site, name: str | None, runs_dir: Path) -> None:
    """Serve the page of a lab until a signal comes. For the main thread."""
    _serve(site, live_app(name, site.token, site.hosts, runs_dir))


def replay(site: Site, run_dir: Path) -> None:
    """Serve the replay of a recorded run likewise. Raises InputError when there is none in the folder."""
    _serve(site, replay_app(recording.load(run_dir), site.token, site.hosts))


def _serve(site: Site, app: Starlette) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="auto",
        timeout_graceful_shutdown=_LEAVE_WITHIN_S,
        ws="none",
    )
    uvicorn.Server(config).run([site.listening])
