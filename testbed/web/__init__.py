"""The live page: what a lab does, told to browsers and terminals while it happens, and what they may ask for."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("starlette", "uvicorn")  # the extra `web`; the terminal's view needs neither


def available() -> bool:
    """Can a page be served here?"""
    return all(find_spec(name) is not None for name in NEEDED)
