"""Embeddings of all networks of a zoo: computed, kept as files, and searched for the nearest ones."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wsl._files import write_text
from wsl.data import ZooDataModule
from wsl.tasks.factories import TaskError
from wsl.tasks.invariant import STAGES, InvariantTask

VECTORS, ROWS, SOURCE = "embeddings.npy", "rows.csv", "source.json"


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One vector for each network, split after split.

    Attributes:
        rows: ``(n,)`` int64, rows of the data.
        splits: ``(n,)``, the name of each one's split.
        vectors: ``(n, features)`` float32.
    """

    rows: np.ndarray
    splits: np.ndarray
    vectors: np.ndarray

    def standardised(self) -> np.ndarray:
        """The vectors with each feature in units of its deviation over the train split, from its mean there.

        Raises:
            TaskError: values that are not finite.
        """
        if not np.isfinite(self.vectors).all():
            raise TaskError(
                "the embeddings are not all finite, so the model has diverged or the zoo holds extreme "
                "weights.\n  Train it with a lower learning rate, or leave such networks out with data.where."
            )
        known = self.vectors[self.splits == "train"].astype(np.float64)
        std = known.std(axis=0)
        scaled: np.ndarray = (self.vectors - known.mean(axis=0)) / np.where(std > 0, std, 1.0)
        return scaled


def embed_splits(task: InvariantTask, data: ZooDataModule, limit: int | None = None) -> Embeddings:
    """The embeddings of the networks in the splits ``train``, ``val`` and ``test``, as stored.

    Args:
        task: built, in evaluation mode.
        limit: about how many networks of each split, in whole batches that lie evenly spread; by default all.

    Raises:
        TaskError: the task reads one architecture, and the data hold several, or the other way round.
        DataError: a split is empty.
    """
    if data.mixed != task.reads_any:
        kinds = {True: "any architectures", False: "one architecture"}
        raise TaskError(
            f"the model is one for {kinds[task.reads_any]}, and the data are of {kinds[data.mixed]}.\n"
            "  A list of zoos, also of one, is data of any architectures."
        )
    rows, vectors, splits = [], [], []
    for split in STAGES:
        data.predict_split = split
        every = 1 if limit is None else ceil(len(data.rows(split)) / limit)
        for i, batch in enumerate(data.predict_dataloader()):
            if i % every:
                continue
            with torch.no_grad():
                vectors.append(task.embed(batch.weights).float().numpy())
            rows.append(batch.rows.numpy())
            splits += [split] * len(batch.rows)
    return Embeddings(np.concatenate(rows), np.array(splits), np.concatenate(vectors))


def write_embeddings(found: Embeddings, folder: Path, source: Mapping[str, Any]) -> None:
    """Write ``embeddings.npy``, ``rows.csv`` (``row``, ``split``) and, last, what they were made from."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SOURCE).unlink(missing_ok=True)  # an interrupted writer leaves nothing that counts
    np.save(folder / VECTORS, found.vectors)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["row", "split"])
    writer.writerows(zip(found.rows, found.splits, strict=True))
    write_text(folder / ROWS, text.getvalue())
    write_text(folder / SOURCE, json.dumps(source, indent=1) + "\n")


def read_embeddings(folder: Path, source: Mapping[str, Any]) -> Embeddings | None:
    """What :func:`write_embeddings` wrote; ``None`` if it was made from another source, or not wholly."""
    try:
        if json.loads((folder / SOURCE).read_text("utf-8")) != source:
            return None
        with open(folder / ROWS, newline="") as file:
            table = [(int(line["row"]), line["split"]) for line in csv.DictReader(file)]
        vectors = np.load(folder / VECTORS, allow_pickle=False)
    except (OSError, ValueError, KeyError):
        return None
    if vectors.ndim != 2 or len(vectors) != len(table):
        return None
    return Embeddings(np.array([r for r, _ in table]), np.array([s for _, s in table]), vectors)


def nearest(found: Embeddings, row: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The networks whose embeddings point most nearly the same way, the nearest first.

    Args:
        row: whose neighbours; it is none of them.
        count: how many; all others if there are fewer.

    Returns:
        Places ``(count,)`` in ``found``, and the cosines of their standardised vectors with that of ``row``.

    Raises:
        TaskError: ``row`` is in no split, or ``count`` below 1.
    """
    places = np.flatnonzero(found.rows == row)
    if len(places) != 1 or count < 1:
        raise TaskError(
            f"row is {row} and count {count}; expected one of the {len(found.rows)} rows of the splits, from "
            f"{found.rows.min()} to {found.rows.max()}, and at least 1."
        )
    vectors = found.standardised()
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = vectors @ vectors[places[0]] / np.maximum(lengths * lengths[places[0]], 1e-12)
    order = np.argsort(-cosines, kind="stable")
    chosen = order[order != places[0]][:count]
    return chosen, cosines[chosen]
