"""`shiftproof`: the verbs, and what happens when one of them fails."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import NoReturn

import typer

from shiftproof.cli import (
    attack,
    audit,
    certify,
    compare,
    corrupt,
    data,
    doctor,
    estimate,
    explain,
    import_,
    ls,
    report,
    run,
    shift,
    train,
    validate,
    verify,
)
from shiftproof.cli.options import EXIT_FAILED
from shiftproof.cli.options import arguments as typed
from shiftproof.errors import CheckFailed, ShiftproofError, StorageError, UsageError, suggestion
from shiftproof.execution.signals import terminate_as_interrupt

__all__ = ["app", "main"]

EXIT_MISTAKE, EXIT_INTERRUPTED = 1, 130
_PLUG_INS: set[str] = set()
"""Verbs that installed packages have brought."""

app = typer.Typer(
    name="shiftproof",
    help="Does your model still work on the domain you ship to?\n\nStart with: [bold]shiftproof run quickstart[/bold]",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for verb in (
    audit,
    run,
    train,
    certify,
    attack,
    corrupt,
    explain,
    verify,
    shift,
    report,
    compare,
    import_,
    estimate,
    validate,
    ls,
    doctor,
):
    # a module can't be called by a word of the language
    app.command(name=verb.__name__.rsplit(".", 1)[-1].rstrip("_"))(verb.command)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Without a verb, show help."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"shiftproof {installed('shiftproof')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        from shiftproof.execution import keep_freed_memory

        keep_freed_memory()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. Exit 0 good, 1 a mistake of the user's, 2 a failed check, 130 interrupted.

    SIGTERM interrupts as Ctrl-C does. A signal that the process was started to ignore, as a shell has its background
    jobs ignore Ctrl-C, is ignored.
    """
    with terminate_as_interrupt():
        _main(list(sys.argv[1:] if arguments is None else arguments))


def _main(given: list[str]) -> NoReturn:
    typed.set(given)
    try:
        _refuse_empty(given)
        _add_plug_ins()
        command = typer.main.get_command(app)
        code = command.main(given, prog_name="shiftproof", standalone_mode=False)
    except CheckFailed as error:
        _stop(str(error), EXIT_FAILED)
    except StorageError as error:
        _stop(str(error).replace("Choose another folder.", "Choose another folder with --out."), EXIT_MISTAKE)
    except ShiftproofError as error:
        _stop(str(error), EXIT_MISTAKE)
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.exit(EXIT_MISTAKE)
    except Exception as error:
        # typer keeps its usage errors private; what marks them is the method that formats them
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        _stop(_usage_sentence(format_message(), given), EXIT_MISTAKE)
    if code == EXIT_INTERRUPTED:
        resumes = not given or given[0] not in ("verify", "explain", "shift", "compare") or "--state" in given
        _stop(
            f"interrupted; {'run the same command again to continue' if resumes else 'nothing was written'}",
            EXIT_INTERRUPTED,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _add_plug_ins() -> None:
    """Enter verbs of installed packages: entry points of the group `shiftproof.verbs`, each a typer command."""
    known = {str(info.name) for info in app.registered_commands} | {str(info.name) for info in app.registered_groups}
    for point in entry_points(group="shiftproof.verbs"):
        if point.name in known:
            # main may be called several times in a process
            if point.name in _PLUG_INS:
                continue
            raise UsageError(f"the plug-in {point.value!r} brings a verb {point.name!r}, and there is one already")
        try:
            app.command(name=point.name)(point.load())
        except Exception as error:
            raise UsageError(f"the plug-in {point.name!r} can't be loaded: {type(error).__name__}: {error}") from error
        _PLUG_INS.add(point.name)


def _refuse_empty(given: list[str]) -> None:
    """Refuse an argument without a character in it, which is a variable of a script that was not set."""
    for before, argument in zip(["", *given], given, strict=False):
        if not argument.strip():
            raise UsageError(f"the value of {before} is empty" if before.startswith("-") else "an argument is empty")
        if argument.startswith("--") and argument.endswith("=") and argument.count("=") == 1:
            raise UsageError(f"the value of {argument.removesuffix('=')} is empty")


def _stop(message: str, code: int) -> NoReturn:
    line = f"error: {message}"
    if sys.stderr.isatty():
        # in a log it is one line
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    typer.echo(line, err=True)
    sys.exit(code)


def _usage_sentence(message: str, given: list[str]) -> str:
    """What typer says, with the nearest verb if the verb is what is wrong, and where help is."""
    message = message.strip().replace("\n", " ")
    unknown = re.match(r"No such command '(.+?)'", message)
    verbs = [str(info.name) for info in app.registered_commands] + [str(info.name) for info in app.registered_groups]
    if unknown and given and given[0] == unknown.group(1):
        return f"no such verb {given[0]!r}. {suggestion(given[0], verbs)}"
    verb = f" {given[0]}" if given and given[0] in verbs else ""
    return f"{message} See: shiftproof{verb} --help"
