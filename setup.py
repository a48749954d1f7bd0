"""What pyproject.toml cannot say: that `playbooks` goes into a wheel as the tree that it is."""

from pathlib import Path

from setuptools import setup

_FOLDERS = sorted({path.parent for path in Path("playbooks").rglob("*") if path.is_file()})

setup(
    data_files=[
        ("share/mrclab/topologies", sorted(map(str, Path("topologies").glob("*.yaml")))),
        ("share/mrclab/scenarios", sorted(map(str, Path("scenarios").glob("*.yaml")))),
        *(
            (f"share/mrclab/{folder.as_posix()}", sorted(str(path) for path in folder.iterdir() if path.is_file()))
            for folder in _FOLDERS
        ),
    ]
)
