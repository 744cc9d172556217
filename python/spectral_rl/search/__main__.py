"""``python -m spectral_rl.search``: makes a search, works on it, shows it."""

import argparse
import json
import sys

from spectral_rl import search
from spectral_rl.search._space import _plain

_EPILOG = """ranges: log:1e-5:1e-3   uniform:0:1   integer:1:5   integer-log:8:512   choice:32:64
exit codes: 0 done, 2 wrong usage, 3 a file is missing, damaged or cannot be written, 130 interrupted: the same command goes on"""


def _pair(text):
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form key=value")
    return key.strip(), value.strip()


def _whole(text):
    return int(text.replace("_", ""))


def _seeds(text):
    """A count (5), a range (1000..1009) or a list (3,7,9), as the ``spectral`` command has them."""
    if ".." in text:
        first, last = text.split("..")
        return list(range(int(first), int(last.lstrip("=")) + 1))
    return [int(word) for word in text.split(",") if word.strip()] if "," in text else int(text)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spectral_rl.search",
        description="Searches for good settings of an agent: Optuna proposes trials, populations train them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    create = commands.add_parser("create", help="make a search in a folder")
    create.add_argument("folder")
    create.add_argument("--task", required=True, help="one of Spectral's tasks, or the id of a Gymnasium task")
    create.add_argument("--agent", default="spectral", help="name or TOML file (spectral)")
    help_text = "what is searched, such as learning_rate=log:1e-5:1e-3; may be given several times"
    create.add_argument("--space", required=True, action="append", type=_pair, metavar="KEY=RANGE", help=help_text)
    create.add_argument("--seeds", type=_seeds, default=1, help="a count (2), a range (1000..1009) or a list (3,7,9) (1)")
    create.add_argument("--frames", type=_whole, default=200_000, help="frames of each trial and seed (200000)")
    create.add_argument("--trials", type=_whole, default=40, help="how many sets of settings are tried (40)")
    create.add_argument("--population", type=_whole, default=8, help="how many of them are trained side by side (8)")
    create.add_argument("--sampler", choices=("tpe", "random"), default="tpe", help="what proposes them (tpe)")
    create.add_argument("--sampler-seed", type=_whole, default=1, help="decides what is proposed (1)")
    create.add_argument("--stack", type=_whole, default=1, help="images that an agent sees at once, of Gymnasium tasks (1)")
    help_text = "another setting, the same in all trials"
    create.add_argument("--set", action="append", default=[], type=_pair, metavar="KEY=VALUE", help=help_text)
    help_text = "a keyword argument of a Gymnasium task"
    create.add_argument("--env", action="append", default=[], type=_pair, metavar="KEY=VALUE", help=help_text)

    work = commands.add_parser("work", help="train until all trials are done; run it as often as you like")
    work.add_argument("folder")
    work.add_argument("--device", help="another device than the search's, such as cuda:1")
    work.add_argument("--threads", type=_whole, help="threads (every core)")
    work.add_argument("--no-wait", action="store_true", help="leave when only others' populations are left")
    work.add_argument("--quiet", action="store_true", help="show no progress")

    give_up = commands.add_parser("give-up", help="count the trials of a population that cannot be trained as failed")
    give_up.add_argument("folder")
    give_up.add_argument("population", type=_whole, help="its number")
    give_up.add_argument("--reason", default="by hand", help="what is noted")

    show = commands.add_parser("show", help="print trials, the best first")
    show.add_argument("folder")
    show.add_argument("--json", action="store_true", help="every trial as JSON")
    return parser


def _run(words):
    if words.command == "create":
        made = search.create(
            words.folder,
            task=words.task,
            agent=words.agent,
            space=dict(words.space),
            seeds=words.seeds,
            frames=words.frames,
            trials=words.trials,
            population=words.population,
            sampler=words.sampler,
            sampler_seed=words.sampler_seed,
            stack=words.stack,
            env_kwargs={key: _plain(value) for key, value in words.env},
            **{key: _plain(value) for key, value in words.set},
        )
        print(f"{made.folder}: start as many workers as you like with `python -m spectral_rl.search work {words.folder}`")
    elif words.command == "work":
        search.load(words.folder).work(
            wait=not words.no_wait, progress_bar=not words.quiet, device=words.device, threads=words.threads
        )
    elif words.command == "give-up":
        search.load(words.folder).give_up(words.population, words.reason)
    elif words.json:
        print(json.dumps(search.load(words.folder).results(), indent=1))
    else:
        search.load(words.folder).show()


def main():
    """Runs the command with this process's arguments and returns its exit code."""
    words = _parser().parse_args()
    try:
        _run(words)
    except (TypeError, ValueError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("interrupted and saved; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
