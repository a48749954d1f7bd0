"""Documents: lines of places, overrides, and complaints about models of any shape (unions, lists, validators)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.topology.errors import InputError
from testbed.topology.yamlfile import Document, Problem, load, parse_yaml, refuse, top_level_keys

FILE = Path("story.yaml")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Cut(_Part):
    kind: Literal["cut"]
    target: str


class Noise(_Part):
    kind: Literal["noise"]
    level: float = Field(le=1, description="loudness")


class Story(_Part):
    seed: int = 0
    faults: list[Annotated[Cut | Noise, Field(discriminator="kind")]] = []
    options: dict[str, int] = {}
    mood: Literal["calm", "wild"] = "calm"

    @model_validator(mode="after")
    def _targets_differ(self) -> Story:
        targets = [fault.target for fault in self.faults if isinstance(fault, Cut)]
        refuse(
            Problem(("faults", place, "target"), f"{target} is cut twice {{sic}}", "cut it once")
            for place, target in enumerate(targets)
            if target in targets[:place]
        )
        return self


def document(text: str) -> Document:
    return parse_yaml(text, FILE)


def complaints(text: str, *overrides: str) -> list[str]:
    story = document(text)
    for assignment in overrides:
        story.override(assignment)
    with pytest.raises(InputError) as refused:
        story.validate(Story)
    return str(refused.value).splitlines()


TWO_FAULTS = "seed: 1\nfaults:\n  - kind: cut\n    target: a\n  - kind: noise\n    level: 0.5\n"


def test_places_know_their_lines() -> None:
    story = document(TWO_FAULTS)
    assert [story.line(where) for where in ((), ("seed",), ("faults", 1), ("faults", 1, "level"))] == [1, 1, 5, 6]


def test_a_place_that_is_not_in_the_file_has_the_line_of_what_would_hold_it() -> None:
    story = document(TWO_FAULTS)
    assert story.line(("faults", 0, "colour")) == 3
    assert story.line(("options", "x")) == 1


def test_the_tag_that_pydantic_puts_into_a_place_is_left_out() -> None:
    assert document(TWO_FAULTS).line(("faults", 1, "noise", "level")) == 6


def test_keys_of_a_union_are_suggested_from_the_right_member() -> None:
    text = "faults:\n- kind: noise\n  levl: 0.5\n- kind: cut\n  target: a\n  level: 1\n"
    assert complaints(text) == [
        "story.yaml:2: key 'faults[0].level' is missing; add it: loudness",
        "story.yaml:3: unknown key 'levl'; did you mean 'level'?",
        "story.yaml:6: unknown key 'level'; valid here: kind, target",
    ]


def test_an_unknown_kind_gets_the_nearest() -> None:
    assert complaints("faults:\n- kind: nose\n") == ["story.yaml:2: 'faults[0].kind' is 'nose'; did you mean 'noise'?"]
    assert complaints("faults:\n- target: a\n") == ["story.yaml:2: 'faults[0].kind' is missing; write cut or noise"]


def test_problems_of_a_whole_model_come_at_their_own_lines() -> None:
    text = "faults:\n- kind: cut\n  target: a\n- kind: cut\n  target: a\n- kind: cut\n  target: a\n"
    assert complaints(text) == [
        "story.yaml:5: a is cut twice {sic}; cut it once",
        "story.yaml:7: a is cut twice {sic}; cut it once",
    ]


def test_numbers_beyond_their_limits_are_shown_as_written() -> None:
    assert complaints("faults:\n- kind: noise\n  level: 1.5\n") == [
        "story.yaml:3: 'faults[0].level' is 1.5, more than 1; write 1 or less: loudness"
    ]


def test_long_values_are_cut_short() -> None:
    (line,) = complaints(f"seed: {'x' * 500}\n")
    assert len(line) < 150 and line.startswith("story.yaml:1: 'seed' is 'xxxx")


def test_a_value_of_the_wrong_kind_inside_a_mapping() -> None:
    assert complaints("options:\n  good: 1\n  bad: [1]\n") == [
        "story.yaml:3: 'options.bad' is a list, not a whole number; write a whole number"
    ]


def test_values_that_the_file_leaves_out_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text("mood: wild\n")
    assert load(path, Story, extra={"seed": 7, "mood": "calm"}) == Story(seed=7, mood="wild")


def test_the_top_level_keys_tell_what_a_file_is(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(TWO_FAULTS)
    assert top_level_keys(path) == {"seed", "faults"}


def test_an_override_changes_one_value() -> None:
    story = document(TWO_FAULTS)
    for assignment in ("seed=5", "faults.1.level=0.25", "options.a=3", "mood=wild"):
        story.override(assignment)
    got = story.validate(Story)
    assert (got.seed, got.options, got.mood) == (5, {"a": 3}, "wild")
    assert got.faults[1] == Noise(kind="noise", level=0.25)


def test_a_wrong_override_is_named_instead_of_a_line() -> None:
    assert complaints(TWO_FAULTS, "faults.1.level=2") == [
        "faults.1.level=2: 'faults[1].level' is 2, more than 1; write 1 or less: loudness"
    ]
    assert complaints(TWO_FAULTS, "sed=2") == ["sed=2: unknown key 'sed'; did you mean 'seed'?"]


@pytest.mark.parametrize(
    "assignment",
    [
        "seed",
        "=3",
        "a..b=1",
        "seed.x=1",
        "faults.7.level=1",
        "faults.7=1",
        "faults.x=1",
        "faults.².level=1",
        "seed=[1",
        "",
        f"faults.{'9' * 5000}.level=1",
    ],
)
def test_an_override_that_sets_nothing_is_refused(assignment: str) -> None:
    with pytest.raises(InputError):
        document(TWO_FAULTS).override(assignment)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(InputError, match="larger than"):
        load("/dev/zero", Story)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file or directory"):
        load(tmp_path / "none.yaml", Story)
