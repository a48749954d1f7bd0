"""Packs a checkout into a tar file whose name is the hash of what is in it, and prints where it is.

The files that git knows or would take; without git, all but what is made (`_MADE`). The same files give the same bytes.
"""

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_MADE = {".git", ".venv", ".venv.lock", ".vagrant", "runs", "build", "dist", "__pycache__"}


def _files(root: Path) -> list[Path]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        found = [root / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in root.rglob("*") if not _MADE.intersection(path.relative_to(root).parts)]
    return sorted(path for path in found if path.is_file() and not path.name.endswith("~"))


def _packed(root: Path) -> bytes:
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in _files(root):
            entry = tarfile.TarInfo(str(path.relative_to(root)))
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return content.getvalue()


content = _packed(Path(sys.argv[1]))
name = hashlib.sha256(content).hexdigest()[:16]
packed = Path(tempfile.mkdtemp(prefix="mrclab-")) / f"{name}.tgz"
packed.write_bytes(content)
print(packed)  # noqa: T201
