"""Golden pairs: each `bad/NAME.yaml` is refused with exactly the lines of `bad/NAME.txt`.

After a message was changed on purpose: look at what the failing test shows, and write it to the .txt file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

BAD = Path(__file__).parent / "bad"


@pytest.mark.parametrize("file", sorted(BAD.glob("*.yaml")), ids=lambda file: file.stem)
def test_is_refused_with_file_line_and_the_right_thing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(InputError) as refused:
        load_lab(Path(file.name))
    assert refused.value.exit_code == 2
    assert f"{refused.value}\n" == file.with_suffix(".txt").read_text()


def test_each_message_names_its_file_and_line() -> None:
    for message in BAD.glob("*.txt"):
        for line in message.read_text().splitlines():
            file, number, what = line.split(":", 2)
            assert file == f"{message.stem}.yaml" and int(number) >= 1 and what.strip()
