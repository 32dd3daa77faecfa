"""The dataset card of a zoo: what the Hugging Face hub shows of it."""

import json
import re

from wsl.zoo._info import zoo_info
from wsl.zoo._store import Zoo

CARD = "README.md"
MARK = (
    "<!-- Made from the zoo's own facts. Delete this line to keep the card when the zoo is pushed again. -->"
)
_SIZES = (("n<1K", 1e3), ("1K<n<10K", 1e4), ("10K<n<100K", 1e5), ("100K<n<1M", 1e6), ("1M<n<10M", 1e7))


def zoo_card(zoo: Zoo, repo_id: str, name: str, license: str | None = None) -> str:
    """Markdown: tags that the hub searches, how to load the zoo, and what ``zoo info`` prints.

    Args:
        repo_id: ``user/dataset``.
        name: of the file in the repository.
        license: its identifier on the hub, such as ``mit``.
    """
    size = next((title for title, limit in _SIZES if len(zoo) < limit), "n>10M")
    head = [
        *([f"license: {json.dumps(license)}"] if license else []),
        f"size_categories: [{json.dumps(size)}]",
        "tags: [weight-space-learning, model-zoo, weightspace]",
        "viewer: false",
    ]
    facts = [line for line in zoo_info(zoo.path).splitlines() if not line.startswith("zoo ")]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(facts))), default=0))
    file = json.dumps(name)
    place = f"{json.dumps(repo_id)}, {file}"
    count = len(zoo.architectures)
    kinds = "one architecture" if count == 1 else f"{count} architectures"
    return "\n".join(
        [
            "---", *head, "---", MARK, "",
            f"# {repo_id.rpartition('/')[2]}", "",
            f"A zoo of {len(zoo)} trained neural networks of {kinds}, stored as {zoo.dtype} in `{name}`.", "",
            "```python",
            "import wsl", "",
            f"zoo = wsl.zoo.pull_from_hub({place}, name={file})",
            "zoo.metadata, zoo.splits, zoo.architectures",
            "```", "",
            "or `pip install 'weightspace[hub]'` and "
            f"`python -m wsl zoo pull {repo_id} --name {name} --out {name}`.", "",
            "## What it holds", "",
            f"{fence}text", *facts, fence, "",
        ]
    )  # fmt: skip
