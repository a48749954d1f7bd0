"""How errors read, and the exit code of each."""

from __future__ import annotations

from testbed.topology.errors import InputError, InvalidRunError, MissingError, MrclabError, nearest


def test_where_then_what_then_hint() -> None:
    assert str(InputError("no such link", "did you mean 'a:b'?", file="x.yaml", line=3)) == (
        "x.yaml:3: no such link; did you mean 'a:b'?"
    )
    assert str(InputError("no such link", file="x.yaml")) == "x.yaml: no such link"
    assert str(InputError("no such link")) == "no such link"


def test_several_errors_are_a_line_each_in_the_order_of_the_file() -> None:
    errors = [InputError("second", file="x", line=9), InputError("first", "hint", file="x", line=2)]
    assert str(InputError.several(errors)) == "x:2: first; hint\nx:9: second"


def test_what_is_missing_says_what_for_and_the_command_that_mends_it() -> None:
    error = MissingError("clang is missing", "compiles the programs of the ports", "apt-get install clang")
    assert str(error) == "clang is missing (compiles the programs of the ports); apt-get install clang"


def test_exit_codes_are_the_contract() -> None:
    codes = {kind.__name__: kind.exit_code for kind in (MrclabError, InputError, MissingError, InvalidRunError)}
    assert codes == {"MrclabError": 4, "InputError": 2, "MissingError": 3, "InvalidRunError": 4}


def test_the_nearest_name_or_none() -> None:
    assert nearest("plans", ["planes", "rates"]) == "did you mean 'planes'?"
    assert nearest("xyz", ["planes", "rates"]) == ""
