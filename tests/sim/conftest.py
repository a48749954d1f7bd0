"""Virtual time: a test of this folder that really waits is wrong."""

import time
from collections.abc import Iterator
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def nothing_sleeps() -> Iterator[None]:
    """No real sleep, whoever asks for one."""

    def sleep(_: float) -> NoReturn:
        raise AssertionError("something slept for real")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        yield
