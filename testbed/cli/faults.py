"""`mrclab fault`: break something by hand, see what is broken, put it right; also while a run goes on."""

from __future__ import annotations

import click

from testbed.cli.output import json_option, result, show

lab_option = click.option("--lab", "lab_name", metavar="NAME", help="The lab; default: the one that is up.")


@click.group("fault")
def fault_verb() -> None:
    """Break a link by hand, list what is broken, put it right."""


@fault_verb.command("link-down")
@click.argument("link")
@click.option("--end", type=click.Choice(["near", "far", "both"]), default="near", help="near is the lower tier.")
@lab_option
@json_option
def link_down(link: str, end: str, lab_name: str | None, as_json: bool) -> None:
    """Switch off LINK (like p0t0-1:p0t1-3) at one end or both, until `mrclab fault clear`."""
    from testbed.chaos import by_hand
    from testbed.lab.running import the_lab

    with the_lab(lab_name) as lab:
        fault = by_hand.put(lab, "link-down", link, end)  # type: ignore[arg-type]
    text = f"fault {fault.number}: link-down {fault.target} at its {fault.end} end; undo it with: mrclab fault clear"
    result(
        as_json,
        {"number": fault.number, "kind": fault.kind, "target": fault.target, "end": fault.end},
        lambda: show(text),
    )


@fault_verb.command("list")
@lab_option
@json_option
def list_faults(lab_name: str | None, as_json: bool) -> None:
    """The faults in force, oldest first."""
    from testbed.chaos import by_hand
    from testbed.lab.running import the_lab

    with the_lab(lab_name) as lab:
        faults = by_hand.active(lab)

    def render() -> None:
        for fault in faults:
            show(f"{fault.number}: {fault.kind} {fault.target} ({fault.end} end), put in by {fault.by}")
        if not faults:
            show(f"no fault is in force in lab {lab.name}")

    told = [
        {"number": one.number, "kind": one.kind, "target": one.target, "end": one.end, "by": one.by} for one in faults
    ]
    result(as_json, {"lab": lab.name, "faults": told}, render)


@fault_verb.command("clear")
@click.argument("number", type=int, required=False)
@lab_option
@json_option
def clear(number: int | None, lab_name: str | None, as_json: bool) -> None:
    """Undo the fault NUMBER, or all of them, latest first."""
    from testbed.chaos import by_hand
    from testbed.lab.running import the_lab

    with the_lab(lab_name) as lab:
        undone = by_hand.clear(lab, number)
    names = ", ".join(f"{fault.kind} {fault.target}" for fault in undone)
    text = f"undone: {names}" if undone else "there was nothing to undo"
    result(as_json, {"lab": lab.name, "undone": [fault.number for fault in undone]}, lambda: show(text))
