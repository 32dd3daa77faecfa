"""``bench learnopt`` compares learned optimizers with tuned ones."""

import hashlib
import sys
from pathlib import Path

import torch
from jsonargparse import ArgumentParser, Namespace

import wsl
from wsl.bench import BenchError
from wsl.bench.learnopt import (
    TUNED,
    LearnedRival,
    Request,
    Rival,
    Settings,
    bench_optimizers,
    read_problems,
)
from wsl.learnopt import read_optimizer

OUT, SMOKE_OUT = "runs/bench_learnopt", "runs/bench_learnopt_smoke"
DONE, SOME_FAILED = 0, 1


def run(options: Namespace) -> int:
    """Run the bench; 1 if some trials failed.

    Raises:
        BenchError: it cannot be run as asked.
        OptimizerFileError, TaskError: a file or checkpoint holds no optimizer.
    """
    folder = Path(options.configs or Path(wsl.__file__).parents[1] / "configs")
    if not folder.is_dir():
        raise BenchError(f"there is no folder {folder}. Run in a checkout, or name one with --configs.")
    if options.threads < 1:
        raise BenchError(f"threads is {options.threads}; expected at least 1.")
    torch.set_num_threads(options.threads)
    rivals: list[Rival] = [_tuned(name) for name in options.optimizers]
    rivals += [learned_rival(source) for source in options.learned]
    request = Request(
        out=Path(options.out or (SMOKE_OUT if options.smoke else OUT)),
        problems=read_problems(folder / "problems", options.tasks),
        rivals=rivals,
        settings=Settings(options.seeds, options.tuning_seeds),
        lanes=options.lanes,
        smoke=options.smoke,
        redo=options.redo,
    )
    text, failed = bench_optimizers(request)
    sys.stdout.write(f"\n{text}\n{request.out} holds table.md, table.csv, curves.csv and figures.\n")
    return SOME_FAILED if failed else DONE


def _tuned(name: str) -> Rival:
    if name not in TUNED:
        raise BenchError(f"there is no optimizer {name!r} to tune; choose of {', '.join(TUNED)}.")
    return TUNED[name]


def learned_rival(source: str) -> LearnedRival:
    """The optimizer of a file, of a checkpoint, or of a name, which is that of the file or of the run."""
    path = Path(source)
    if path.suffix == ".ckpt":
        from wsl.tasks.optimizer_files import learned_optimizer  # imports Lightning, which takes seconds

        optimizer = learned_optimizer(path)
        name = path.resolve().parent.parent.name if path.parent.name == "checkpoints" else path.stem
    else:
        optimizer, name = read_optimizer(source).build(), path.stem
    digest = hashlib.sha256(repr((type(optimizer).__name__, optimizer.given)).encode())
    for tensor in optimizer.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return LearnedRival(name, optimizer, source, digest.hexdigest()[:12])


def parser() -> ArgumentParser:
    """Of the options."""
    made = ArgumentParser(
        exit_on_error=False,
        description="Compare learned optimizers with hand-designed ones, each tuned per task on a grid of "
        "learning rates and schedules, by other problems than those reported. All settings and problems "
        "train as lanes of one vectorised run. Writes table.md, table.csv, curves.csv and figures of all "
        "that is asked for; the same command goes on with what an interrupted one left.",
    )
    made.add_argument(
        "--learned",
        type=str,
        nargs="+",
        default=[],
        help="files of optimizers (.safetensors), checkpoints of `fit` (.ckpt), names of some in the package",
    )
    made.add_argument(
        "--optimizers",
        type=str,
        nargs="+",
        default=list(TUNED),
        help=f"hand-designed ones to tune and compare with (default: {' '.join(TUNED)})",
    )
    made.add_argument(
        "--tasks",
        type=str,
        nargs="+",
        default=[],
        help="names of files in problems/, or other YAML files; all by default",
    )
    made.add_argument(
        "--configs", type=str, default=None, help="folder with problems/; the checkout's by default"
    )
    made.add_argument("--seeds", type=int, default=5, help="problems that are reported (default: 5)")
    made.add_argument("--tuning_seeds", type=int, default=5, help="other problems to tune by (default: 5)")
    made.add_argument("--lanes", type=int, default=64, help="trainings at once; bounds memory (default: 64)")
    made.add_argument("--threads", type=int, default=1, help="processor threads of torch (default: 1)")
    made.add_argument("--out", type=str, default=None, help=f"folder of trials and tables (default: {OUT})")
    made.add_argument(
        "--smoke",
        action="store_true",
        help=f"try everything within two minutes: 20 steps, a coarse grid, two problems, into {SMOKE_OUT}",
    )
    made.add_argument(
        "--redo",
        action="store_true",
        help="delete trials that were made with other settings, and do them anew",
    )
    return made
