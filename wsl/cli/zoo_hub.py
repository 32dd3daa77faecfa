"""``zoo push`` and ``zoo pull``: zoos on the Hugging Face hub."""

import sys

from jsonargparse import ArgumentParser, Namespace

from wsl.zoo import Zoo, pull_from_hub, push_to_hub

PUSH_HELP = "put a zoo with a dataset card on the Hugging Face hub"
PULL_HELP = "fetch a zoo from the Hugging Face hub and check it"


def push_arguments(parser: ArgumentParser) -> None:
    """Arguments of ``zoo push``."""
    parser.add_argument("file", type=str, help="the zoo file to read")
    _add_place(parser)
    parser.add_argument(
        "--private", action="store_true", help="a repository that is made is its owner's alone to see"
    )
    parser.add_argument("--license", type=str, help="identifier of the license, for the card: mit, cc-by-4.0")


def pull_arguments(parser: ArgumentParser) -> None:
    """Arguments of ``zoo pull``."""
    _add_place(parser)
    parser.add_argument("--out", type=str, required=True, help="the zoo file to make; never overwritten")


def run_push(parser: ArgumentParser, options: Namespace) -> None:
    """Push and say where to."""
    zoo = Zoo.open(options.file)
    address = push_to_hub(
        zoo,
        options.repo,
        name=options.name,
        private=options.private,
        revision=options.revision,
        license=options.license,
    )
    sys.stdout.write(f"{zoo.path}: {len(zoo)} networks pushed, {address}\n")


def run_pull(parser: ArgumentParser, options: Namespace) -> None:
    """Pull and say what came."""
    zoo = pull_from_hub(options.repo, options.out, name=options.name, revision=options.revision)
    sys.stdout.write(f"{zoo.path}: {len(zoo)} networks, fingerprint {zoo.fingerprint}\n")


def _add_place(parser: ArgumentParser) -> None:
    parser.add_argument("repo", type=str, help="the dataset repository: user/dataset")
    parser.add_argument("--name", type=str, default="zoo.h5", help="of the file in the repository")
    parser.add_argument("--revision", type=str, help="branch, or for pull also tag or commit")
