"""What a verb needs is looked at before it begins, so that it refuses early, in the doctor's words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def needs(verb: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator of the function of `verb`. It then raises MissingError when the machine lacks what the verb needs."""

    def wrap(act: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(act)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            from testbed import doctor

            doctor.require(verb)
            return act(*args, **kwargs)

        return checked

    return wrap
