"""What every test shares: the seed, the marks, and proof that the machine is left as it was found.

The tests' own process runs the agents' code as plain Python, since tests replace methods of its objects; the verbs and
the agents that they start are compiled where that is built (`tests/unit/test_compiled.py` holds that it is the same).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator

import pytest

_before = os.environ.get("MRCLAB_PURE")
os.environ["MRCLAB_PURE"] = "1"
import agents  # noqa: E402, F401  (decides here which code it is)

if _before is None:
    del os.environ["MRCLAB_PURE"]
else:
    os.environ["MRCLAB_PURE"] = _before


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=1, help="seed of every random choice in the tests")
    parser.addoption("--full", action="store_true", help="run the long storms and campaigns too")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed {config.getoption('--seed')}{', full' if config.getoption('--full') else ', sample'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "full" in item.keywords and not config.getoption("--full"):
            item.add_marker(pytest.mark.skip(reason="only with --full"))
        if "kernel" in item.keywords and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this session; a failing test prints it in its header."""
    value = request.config.getoption("--seed")
    assert isinstance(value, int)
    return value


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Randomness of its own for each test, the same for the same seed, whatever else runs."""
    return random.Random(f"{seed} {request.node.nodeid}")


def _machine() -> dict[str, object]:
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, check=True).stdout or b"[]")
    namespaces = sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []
    labs = sorted(os.listdir("/run/mrclab")) if os.path.isdir("/run/mrclab") else []
    return {"links": sorted(link["ifname"] for link in links), "namespaces": namespaces, "labs": labs}


@pytest.fixture(scope="session", autouse=True)
def machine_left_as_found() -> Iterator[None]:
    """No test may leave a namespace, a link or a lab behind on the machine."""
    if os.geteuid() != 0:
        yield
        return
    before = _machine()
    yield
    assert _machine() == before
