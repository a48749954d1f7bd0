"""Who may ask the server for what: a middleware before everything else.

The page is for this machine's browser. Another site's page in that browser must neither read nor change anything, so
the Host header has to be ours (DNS rebinding) and an Origin, where there is one, too. Every change needs the token
besides, in a header that no form of another site can set; whoever has not seen the server's terminal has no token.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-mrclab-token"
MAX_BODY_BYTES = 64 << 10
_READING = frozenset({"GET", "HEAD"})


class Guard:
    """Passes on what is allowed; refuses the rest with 403, or with 413 what is too long."""

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        """`hosts`: what the Host header may be, like `127.0.0.1:8420`."""
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; see ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            code, why = refusal
            await JSONResponse({"error": why}, code)(scope, receive, send)
            return
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if headers.get("host") not in self._hosts:
            return 403, "this server does not go by that name"
        if headers.get("origin", next(iter(self._origins))) not in self._origins:
            return 403, "pages of other sites may ask for nothing here"
        if method in _READING:
            return None
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token):
            return 403, "a change needs the token: open the page by the address that the server printed"
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return 413, f"a request has a body of at most {MAX_BODY_BYTES} bytes, and says how long it is"
        return None


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message["headers"],
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"no-referrer"),
                (b"cache-control", b"no-store"),
            ]
        await send(message)

    return send_with_headers
