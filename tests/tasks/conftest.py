import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tiny_zoo, also when run alone

import tiny_zoo


@pytest.fixture(scope="session")
def zoo_path(tmp_path_factory):
    return str(tiny_zoo.build(tmp_path_factory.mktemp("zoo") / "tiny.h5").path)
