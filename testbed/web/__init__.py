"""The live page: what a lab does, told to browsers and terminals while it happens, and what they may ask for."""

from __future__ import annotations

from importlib.util import find_spec

from testbed.topology.errors import MissingError

NEEDED = ("starlette", "uvicorn")  # the extra `web`; the terminal's view needs neither


def available() -> bool:
    """Can a page be served here?"""
    return all(find_spec(name) is not None for name in NEEDED)


def require() -> None:
    """Return when a page can be served. Raises MissingError, with the fix."""
    if not available():
        raise MissingError(f"{' and '.join(NEEDED)} are missing", "they serve the page", "pip install 'mrclab[web]'")
