"""`mrclab fault`: break something by hand, see what is broken, put it right; also while a run goes on.

The verbs are the registry of kinds (`testbed.chaos.kinds`): a command for each, with the options that the kind takes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from testbed.cli.needs import needs
from testbed.cli.output import json_option, result, show
from testbed.cli.quantity import DURATION, Quantity

if TYPE_CHECKING:
    from testbed.chaos.kinds.kind import Kind
    from testbed.chaos.kinds.options import Option
    from testbed.lab.running import RunningLab
    from testbed.measure.record import Fault

lab_option = click.option("--lab", "lab_name", metavar="NAME", help="The lab; default: the one that is up.")


class _FaultGroup(click.Group):
    """`list` and `clear`, and a command for each kind, made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from testbed.chaos.kinds import KINDS

        return [*super().list_commands(ctx), *KINDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from testbed.chaos.kinds import KINDS

        if cmd_name in KINDS:
            return _command(KINDS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from testbed.topology.errors import nearest

            ctx.fail(f"no fault kind {args[0]!r}; {nearest(args[0], names) or 'see mrclab fault --help'}")
        return super().resolve_command(ctx, args)


@click.group("fault", cls=_FaultGroup)
def fault_verb() -> None:
    """Break something by hand, list what is broken, put it right."""


def _command(kind: Kind) -> click.Command:
    from testbed.chaos.kinds.kind import SHAPES
    from testbed.chaos.kinds.options import OPTIONS

    words, example = SHAPES[kind.takes]
    lasts = "until it is cleared" if kind.lasts_ns is None else f"{kind.lasts_ns / 1e9:g} s"
    parameters: list[click.Parameter] = [
        click.Argument(["target"], nargs=-1, required=True),
        *(_option(OPTIONS[name], default) for name, default in kind.defaults.items()),
        click.Option(
            ["--for", "for_ns"],
            type=DURATION,
            metavar="DURATION",
            help=f"Wait so long, then undo it; default: {lasts}.",
        ),
        click.Option(["--seed"], type=click.IntRange(min=0), default=1, help="For targets with pick=."),
    ]
    if kind.end is not None:
        ends = click.Choice(["near", "far", "both"])
        parameters.append(click.Option(["--end"], type=ends, help=f"near is the lower tier; default: {kind.end}."))
    command = click.Command(
        kind.name,
        params=parameters,
        callback=lambda **given: _put(kind, **given),
        help=f"{kind.doc}.\n\nTARGET: {words}, like '{example}'.",
        short_help=kind.doc,
    )
    return lab_option(json_option(command))


def _option(option: Option, default: Any) -> click.Option:
    return click.Option(
        [f"--{option.name.replace('_', '-')}", option.name],
        type=Quantity(option.parse),
        metavar=option.example,
        help=f"{option.doc}; default: {option.show(default)}.",
    )


@needs("fault")
def _put(
    kind: Kind,
    target: tuple[str, ...],
    for_ns: int | None,
    seed: int,
    lab_name: str | None,
    as_json: bool,
    end: Any = None,
    **options: Any,
) -> None:
    from testbed.chaos import by_hand
    from testbed.lab.running import the_lab

    lasts_ns = kind.lasts_ns if for_ns is None else for_ns
    given = {name: value for name, value in options.items() if value is not None}
    with the_lab(lab_name) as lab:
        put = by_hand.put if lasts_ns is None else partial(by_hand.put_for, lasts_ns=lasts_ns)
        fault = put(lab, kind.name, " ".join(target), end, given, seed=seed)
    undoing = "undone" if fault.until_ns is not None else "undo it with: mrclab fault clear"
    result(as_json, _told(fault), lambda: show(f"fault {fault.number}: {_words(fault)}; {undoing}"))


def _words(fault: Fault) -> str:
    from testbed.chaos.kinds.kind import show_options
    from testbed.measure.record import at_end

    options = show_options(dict(fault.options))
    return f"{fault.kind} {fault.target}{at_end(fault.end)}" + (f" ({options})" if options else "")


def _told(fault: Fault) -> dict[str, Any]:
    return {
        "number": fault.number,
        "kind": fault.kind,
        "target": fault.target,
        "end": fault.end,
        "options": dict(fault.options),
        "links": list(fault.links),
        "by": fault.by,
        "active": fault.until_ns is None,
    }


def faults_in_force(lab: RunningLab) -> list[tuple[dict[str, Any], str]]:
    """(for JSON, for people) of each fault that is in now, oldest first."""
    from testbed.chaos import by_hand

    return [(_told(fault), f"{fault.number}: {_words(fault)}, put in by {fault.by}") for fault in by_hand.active(lab)]


@fault_verb.command("list")
@lab_option
@json_option
@needs("fault")
def list_faults(lab_name: str | None, as_json: bool) -> None:
    """The faults in force, oldest first."""
    from testbed.lab.running import the_lab

    with the_lab(lab_name) as lab:
        faults = faults_in_force(lab)

    def render() -> None:
        for _, text in faults:
            show(text)
        if not faults:
            show(f"no fault is in force in lab {lab.name}")

    result(as_json, {"lab": lab.name, "faults": [told for told, _ in faults]}, render)


@fault_verb.command("clear")
@click.argument("number", type=int, required=False)
@lab_option
@json_option
@needs("fault")
def clear(number: int | None, lab_name: str | None, as_json: bool) -> None:
    """Undo the fault NUMBER, or all of them, latest first."""
    from testbed.chaos import by_hand
    from testbed.lab.running import the_lab

    with the_lab(lab_name) as lab:
        undone = by_hand.clear(lab, number)
    names = ", ".join(f"{fault.kind} {fault.target}" for fault in undone)
    text = f"undone: {names}" if undone else "there was nothing to undo"
    result(as_json, {"lab": lab.name, "undone": [fault.number for fault in undone]}, lambda: show(text))
