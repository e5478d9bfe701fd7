"""What the commands share: starting ranks, one line for a user's mistake, and commands to paste. Imports nothing
heavy: it must work in a Python that has none of the packages."""

import argparse
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pivotrl.disk import describe
from pivotrl.quiet import quiet

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.session import Session

REPOSITORY = Path(__file__).resolve().parents[1]
_RANK_0_SPEAKS_SECONDS = 10.0


def add_ranks(parser: argparse.ArgumentParser, default: int = 1) -> None:
    """Add `--ranks N`, for one machine; under torchrun or srun it is not needed and not read."""
    parser.add_argument(
        "--ranks",
        type=int,
        default=default,
        metavar="N",
        help=f"processes to start on this machine (default {default})",
    )


def training_command(
    module: str,
    description: str | None,
    train: Callable[["Session"], None],
    check: Callable[["RunConfig"], object] = lambda config: None,
) -> int:
    """The command `python -m MODULE --ranks N --config CONFIG [section.key=value ...]` of a training.

    Args:
        train: what a session is opened for.
        check: finds what else can be wrong with the configuration, before the minute that a session may take.

    Returns:
        The exit code, as `run_command`.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="YAML file of the run")
    add_ranks(parser)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the file")
    arguments = parser.parse_args()

    def work() -> None:
        from pivotrl.config import load_config
        from pivotrl.policy.checkpoint_lock import refuse_if_held

        config = load_config(arguments.config, arguments.overrides)
        refuse_if_held(Path(config.output) / "checkpoints")
        check(config)

        from pivotrl.session import open_session

        train(open_session(config))

    return run_command(module, ["-m", module], arguments.ranks, work)


def run_command(name: str, command: list[str], ranks: int, work: Callable[[], None]) -> int:
    """Do the work of a command on every rank.

    Args:
        name: what stands before a mistake on the terminal.
        command: how Python starts it, `["-m", "pivotrl.train"]` or `["tools/x.py"]`, without its arguments.
        ranks: how many ranks to start where no launcher has.
        work: what one rank does.

    Returns:
        The exit code: 0; 2 after a ValueError or an OSError (a user's mistake, or a full disk) or where a package is
        missing, 1 after a RefitError, an error of vLLM's or where another rank is lost, 3 where a health gate stopped
        the run, and 128 + N after signal N (130 after Ctrl-C; others where the command turns them into a
        KeyboardInterrupt of their number), each said in one line; PIVOTRL_TRACEBACK=1 adds where it came from.
    """
    quiet()

    def on_this_rank() -> int:
        if ranks > 1 and "RANK" not in os.environ:
            from pivotrl.policy.local_ranks import run_ranks

            return run_ranks(ranks, [*command, *sys.argv[1:]])
        from pivotrl.rollout.failure import EngineError
        from pivotrl.rollout.plan import RefitError
        from pivotrl.telemetry.health import HealthStop

        try:
            work()
        except (ValueError, OSError, RefitError, EngineError, HealthStop) as error:
            rank = os.environ.get("RANK", "0")
            if os.environ.get("PIVOTRL_TRACEBACK") == "1":
                traceback.print_exception(error)
            if rank != "0" and not isinstance(error, OSError | EngineError):
                # The launcher ends every rank when the first one fails: let rank 0, which mostly knows the same, speak.
                time.sleep(_RANK_0_SPEAKS_SECONDS)
            said = describe(error) if isinstance(error, OSError) else str(error)
            print(f"{name}: {said}" + (f" (rank {rank})" if rank != "0" else ""), file=sys.stderr, flush=True)
            return {RefitError: 1, EngineError: 1, HealthStop: 3}.get(type(error), 2)
        except Exception as error:
            from pivotrl.policy import lost

            if not lost.is_lost(error):
                raise
            lost.tell(name, error)
            return 1
        return 0

    try:
        return with_packages(name, on_this_rank)
    except KeyboardInterrupt as stop:
        if "RANK" not in os.environ:  # the one that started the ranks speaks for them
            print(f"{name}: interrupted", file=sys.stderr, flush=True)
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)


def run_alone(name: str, work: Callable[[], None]) -> int:
    """Do the work of a command of one process. Returns its exit code: 0, or 2 after a ValueError or an OSError and
    where a package is missing, each said in one line behind `name`."""

    def here() -> int:
        try:
            work()
        except (ValueError, OSError) as error:
            print(f"{name}: {describe(error) if isinstance(error, OSError) else error}", file=sys.stderr)
            return 2
        return 0

    return with_packages(name, here)


def with_packages(name: str, work: Callable[[], int]) -> int:
    """The exit code of `work`; where a package is missing: 2, after one line that says which Python has it."""
    try:
        return work()
    except ModuleNotFoundError as error:
        if (error.name or "pivotrl").split(".")[0] == "pivotrl":  # not a package's fault
            raise
        remedy = (
            f"start it with {_relative(REPOSITORY / '.venv' / 'bin' / 'python')}"
            if (REPOSITORY / ".venv").is_dir() and not _runs_in_venv()
            else "install the packages: bash tools/setup.sh makes .venv"
        )
        print(f"{name}: this Python ({sys.executable}) has no package {error.name!r}; {remedy}", file=sys.stderr)
        return 2


def to_paste(tool: str, *arguments: str | Path) -> str:
    """A command that works in the current folder: the Python that runs now, a tool of the repository, its arguments.

    Tool and Python are written relative to the current folder; a Python that is not the repository's is `python`.
    """
    python = _relative(REPOSITORY / ".venv" / "bin" / "python") if _runs_in_venv() else "python"
    return shlex.join([python, _relative(REPOSITORY / tool), *map(str, arguments)])


def _runs_in_venv() -> bool:
    return Path(sys.prefix).resolve() == (REPOSITORY / ".venv").resolve()


def _relative(path: Path) -> str:
    """From the current folder; links are not followed, because a link is what makes a Python that of an environment."""
    return os.path.relpath(path, Path.cwd().resolve())
