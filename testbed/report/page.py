"""The page that draws what `testbed.measure.view` tells: served beside a live lab, or in one file with a recording.

It is made of ES modules without a build step. They import each other by bare names, which an import map turns into
addresses: of the server, or of the modules' own text when everything has to be in one file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "page"

_MODULES = ("main", "model", "sources", "topology", "chart", "evmap", "panel", "health", "dom")

WHOLE_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"

# The files that a server hands out, with their media types. Nothing else is.
ASSETS = {"style.css": "text/css", **{f"{name}.js": "text/javascript" for name in _MODULES}}


@cache
def served() -> tuple[str, str]:
    """(the page for a server that hands out ASSETS below /page/, its content security policy)."""
    imports = _import_map({name: f"/page/{name}.js" for name in _MODULES})
    digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    style = '<link rel="stylesheet" href="/page/style.css">'
    main = '<script type="module" src="/page/main.js"></script>'
    return _filled(style, imports, main), policy


def whole(recording: dict[str, Any]) -> str:
    """The page with a recording, in one file that asks for nothing else."""
    imports = _import_map({name: _as_address((FOLDER / f"{name}.js").read_text()) for name in _MODULES})
    data = json.dumps(recording, separators=(",", ":")).replace("<", "\\u003c")
    main = (
        f'<script type="application/json" id="recording">{data}</script>\n<script type="module">import "main";</script>'
    )
    return _filled(f"<style>{(FOLDER / 'style.css').read_text()}</style>", imports, main)


def _filled(style: str, imports: str, main: str) -> str:
    text = (FOLDER / "index.html").read_text()
    for mark, part in (
        ("<!-- style -->", style),
        ("<!-- modules -->", f'<script type="importmap">{imports}</script>\n{main}'),
    ):
        text = text.replace(mark, part)
    return text


def _import_map(addresses: dict[str, str]) -> str:
    return json.dumps({"imports": addresses})


def _as_address(module: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module.encode()).decode()
