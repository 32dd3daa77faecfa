"""Zoos on the Hugging Face hub: a dataset repository holds the file and a card."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wsl.zoo._card import CARD, MARK, zoo_card
from wsl.zoo._errors import ZooError
from wsl.zoo._optional import optional
from wsl.zoo._store import Zoo
from wsl.zoo._writing import WritingFolder
from wsl.zoo.verify import verify_zoo

NAME = "zoo.h5"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def push_to_hub(
    zoo: Zoo,
    repo_id: str,
    *,
    name: str = NAME,
    private: bool = False,
    revision: str | None = None,
    license: str | None = None,
    token: str | None = None,
) -> str:
    """Put a zoo's file and a dataset card into a repository of the hub, in one commit.

    A card that somebody wrote or took over (it lacks the line that says it was made) is left as it is.

    Args:
        repo_id: ``user/dataset``; made if there is none.
        name: of the file there; ends in ``.h5``. A file of that name gets a new version.
        private: whether a repository that is made can be seen by its owner alone.
        revision: the branch; by default the main one.
        license: an identifier of the hub, such as ``mit``, for the card.
        token: of an account that may write there; by default the one that the hub's own tools use.

    Returns:
        The address of the commit.

    Raises:
        ZooError: rows do not match their hashes, the package is missing, or the hub cannot be reached or
            refuses.
    """
    hub = _hub(name)
    result = verify_zoo(zoo.path)
    if not result.ok:
        raise ZooError(f"{zoo.path} is damaged and was not pushed: rows {result.failed[:10]} do not match.")
    api = hub.HfApi(token=token)
    with _refusals(hub, repo_id):
        api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
        files = [hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(zoo.path))]
        if not _has_own_card(hub, api, repo_id, revision):
            card = zoo_card(zoo, repo_id, name, license).encode()
            files.append(hub.CommitOperationAdd(path_in_repo=CARD, path_or_fileobj=card))
        made = api.create_commit(
            repo_id,
            files,
            commit_message=f"Zoo of {len(zoo)} networks, {zoo.fingerprint}",
            repo_type="dataset",
            revision=revision,
        )
    return str(made.commit_url)


def pull_from_hub(
    repo_id: str,
    out: str | os.PathLike[str],
    *,
    name: str = NAME,
    revision: str | None = None,
    token: str | None = None,
) -> Zoo:
    """Fetch a zoo from a repository of the hub, check every row against its hash, and open it.

    A download that breaks off is kept in ``<out>.writing``; the next call goes on from there.

    Args:
        repo_id: ``user/dataset``.
        out: the zoo file to make; never overwritten. It appears whole or not at all.
        name: of the file there.
        revision: a branch, tag or commit; by default the main branch.
        token: for private repositories; by default the one that the hub's own tools use.

    Raises:
        ZooError: there is no such file, it is not a zoo or damaged, the package is missing, the hub cannot be
            reached or refuses, or ``out`` exists.
    """
    hub, path = _hub(name), Path(out).absolute()
    with WritingFolder(path) as folder:
        waiting = folder.path / "hub"

        def fetch(packed: Path) -> None:
            with _refusals(hub, repo_id):
                found = hub.HfApi(token=token).hf_hub_download(
                    repo_id, name, repo_type="dataset", revision=revision, local_dir=waiting
                )
            os.replace(found, packed)
            failed = verify_zoo(packed).failed
            if failed:
                raise ZooError(
                    f"{name} of {repo_id} is damaged: rows {failed[:10]} do not match their hashes."
                )

        try:
            folder.finish(fetch)
        finally:
            if not any(waiting.rglob("*.incomplete")):
                shutil.rmtree(waiting, ignore_errors=True)
        shutil.rmtree(waiting, ignore_errors=True)
    return Zoo.open(path)


def _hub(name: str) -> Any:
    if not name.endswith(".h5") or name.startswith("/") or ".." in name.split("/"):
        raise ZooError(f"{name!r} cannot name a zoo on the hub: give a name such as zoo.h5.")
    hub = optional("huggingface_hub", "hub")
    optional("huggingface_hub.errors", "hub")  # an attribute of the package from then on
    return hub


def _has_own_card(hub: Any, api: Any, repo_id: str, revision: str | None) -> bool:
    with suppress(hub.errors.EntryNotFoundError, hub.errors.RevisionNotFoundError):
        card = api.hf_hub_download(repo_id, CARD, repo_type="dataset", revision=revision)
        return MARK not in Path(card).read_text("utf-8", "replace")
    return False


@contextmanager
def _refusals(hub: Any, repo_id: str) -> Iterator[None]:
    """What the hub's client raises, as ZooError."""
    errors = hub.errors
    try:
        yield
    except errors.LocalEntryNotFoundError as err:
        raise ZooError(f"{repo_id} could not be reached: {_first_line(err)} Check the connection.") from err
    except errors.EntryNotFoundError as err:
        raise ZooError(f"{_first_line(err)} Name a file of {repo_id} that is a zoo (--name).") from err
    except errors.RepositoryNotFoundError as err:
        raise ZooError(
            f"There is no dataset {repo_id} on the hub, or this account may not see it. Check the name; for "
            "a private one log in by `hf auth login`, or set HF_TOKEN."
        ) from err
    except errors.HFValidationError as err:
        raise ZooError(f"{repo_id!r} names no repository: give user/dataset. {_first_line(err)}") from err
    except (errors.HfHubHTTPError, errors.LocalTokenNotFoundError) as err:
        raise ZooError(
            f"The hub refuses {repo_id}: {_first_line(err)} Log in by `hf auth login` or set HF_TOKEN, "
            "with a token that may do this."
        ) from err
    except Exception as err:  # what its transport raises is of several packages
        if isinstance(err, ZooError):
            raise
        if isinstance(err, OSError) and err.errno in _NO_ROOM:
            raise ZooError(
                f"What the hub sent of {repo_id} could not be written: {err.strerror}. Make room, and run "
                "the same command again."
            ) from err
        raise ZooError(
            f"{repo_id} could not be reached: {type(err).__name__}: {_first_line(err)}. Check the connection."
        ) from err


def _first_line(err: BaseException) -> str:
    return next((line.strip() for line in str(err).splitlines() if line.strip()), type(err).__name__)
