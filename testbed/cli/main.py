"""The entry point `mrclab VERB`: a table of verbs, each loaded only when it is asked for, and one place for errors.

Exit codes: 0 done or passed, 1 an expectation failed, 2 wrong input or usage, 3 the machine lacks something,
4 the run is not valid. Errors are one line on stderr (`MrclabError`), never a traceback for what a person did.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys

import click

from testbed.cli.output import say
from testbed.topology.errors import MrclabError

# verb -> the module of this package that has it (as a click command in the attribute VERB_verb), in the order of --help
VERBS = {
    "demo": "show",
    "up": "labs",
    "down": "labs",
    "status": "labs",
    "list": "labs",
    "run": "runs",
    "web": "web",
    "watch": "web",
    "sim": "virtual",
    "campaign": "campaigns",
    "health": "health",
    "compare": "compares",
    "fault": "faults",
    "repair": "mending",
    "capture": "mending",
    "cli": "nodes",
    "exec": "nodes",
    "trace": "paths",
    "graph": "paths",
    "validate": "files",
    "schema": "files",
    "plan": "planning",
    "bench": "bench",
    "play": "play",
    "doctor": "machine",
    "test": "machine",
}


class _LazyGroup(click.Group):
    """Imports a verb's module when the verb is used, so that `mrclab list` does not load the plots."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"testbed.cli.{VERBS[cmd_name]}")
        command = getattr(module, f"{cmd_name}_verb")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from testbed.topology.errors import nearest

            hint = nearest(args[0], VERBS)
            ctx.fail(f"no verb {args[0]!r}" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version="0.1.0", prog_name="mrclab")
def cli() -> None:
    """A multi-plane SRv6 Clos with MRC NICs on one Linux machine: spray, break, watch it reroute.

    Start with `mrclab demo`. Exit codes: 0 done or passed, 1 an expectation failed, 2 wrong input,
    3 the machine lacks something, 4 the run is not valid.
    """


def _terminated(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _fix_of(error: OSError) -> str | None:
    """What mends a lack of the machine that may come up anywhere; None for an error that is ours."""
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return "run it as root"
    return "make room, and try again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None


def main() -> None:
    """Run a verb and leave with its exit code."""
    signal.signal(signal.SIGTERM, _terminated)  # undone like Ctrl-C: every `finally` runs
    try:
        code = cli.main(prog_name="mrclab", standalone_mode=False)
    except MrclabError as error:
        say(str(error))
        code = error.exit_code
    except click.exceptions.Abort:
        say("interrupted")
        code = 130
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            verb = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "mrclab"
            say(f"{error.format_message().rstrip('.')}; see {verb} --help")
        code = 2
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        fix = _fix_of(error)
        if fix is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror}; {fix}")
        code = 3
    sys.exit(code if isinstance(code, int) else 0)
