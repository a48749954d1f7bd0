"""docs/mrc.md is what the code's tables say."""

from pathlib import Path

from agents.mrc import document
from agents.mrc.ev_state import TRANSITIONS


def test_the_page_is_current() -> None:
    path = Path(__file__).parents[3] / "docs" / "mrc.md"
    assert path.read_text() == document.page(), "python -m agents.mrc.document > docs/mrc.md"


def test_the_diagram_has_every_row_of_the_table() -> None:
    page = document.page()
    for (old, cause), new in TRANSITIONS.items():
        assert f"{old.value} --> {new.value}: {cause.value}" in page
