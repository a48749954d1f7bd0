"""From a lab file, or the name of one in `topologies/`, to a checked `LabSpec`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.topology import library, yamlfile
from testbed.topology.labspec import LabSpec


def load_lab(path_or_name: str | Path) -> LabSpec:
    """Read and check a lab file; the lab's name defaults to the file's. Raises InputError with file and line."""
    path = library.find("topologies", path_or_name)
    return yamlfile.load(path, LabSpec, extra={"name": path.stem})


def schema() -> dict[str, Any]:
    """The JSON schema of a lab file. `name` is not required, because it defaults to the file's."""
    document = LabSpec.model_json_schema()
    document["required"].remove("name")
    return document
