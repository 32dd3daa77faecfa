"""Forward definitions: order of coordinates, values of each channel, and networks that nobody described."""

import pytest
import torch

from wsl.models import coordinate_grid
from wsl.zoo import ForwardDefinition, ZooError
from wsl.zoo._forward import UNKNOWN


def test_points_run_along_the_columns_first_where_the_definition_says_so():
    rows_first = ForwardDefinition("wsl.models:Siren", grid=(3, 2))
    columns_first = ForwardDefinition("wsl.models:Siren", grid=(3, 2), column_first=True)
    assert torch.equal(rows_first.points(), coordinate_grid((3, 2)))
    assert columns_first.points().tolist()[:3] == [[-1, -1], [1, -1], [-1, 0]]


def test_signals_have_an_offset_and_a_scale_for_each_channel():
    definition = ForwardDefinition(
        "wsl.models:Siren", output_offset=(0.1, 0.2, 0.3), output_scale=[1, 2, 4], channels=3
    )
    torch.testing.assert_close(definition.signal(torch.ones(5, 3)), torch.tensor([[1.1, 2.2, 4.3]] * 5))
    assert definition.signal(torch.ones(1, 3, dtype=torch.float64)).dtype is torch.float64


@pytest.mark.parametrize(
    "definition",
    [
        ForwardDefinition("wsl.models:Siren"),
        ForwardDefinition("wsl.models:Siren", grid=(3, 2), column_first=True),
        ForwardDefinition("wsl.models:Siren", output_offset=(0.5, 0), channels=2),
    ],
)
def test_definitions_survive_their_json(definition):
    assert ForwardDefinition.from_dict(definition.to_dict()) == definition


def test_entries_at_their_defaults_are_left_out():
    assert "column_first" not in ForwardDefinition("wsl.models:Siren").to_dict()
    assert ForwardDefinition("wsl.models:Siren", column_first=True).to_dict()["column_first"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"output_offset": (0.1, 0.2), "channels": 3},
        {"output_scale": (True,)},
        {"output_scale": "1"},
        {"output_offset": (float("nan"),)},
        {"column_first": 1},
    ],
)
def test_malformed_values_are_refused(change):
    with pytest.raises(ZooError, match=next(iter(change))):
        ForwardDefinition("wsl.models:Siren", **change)


def test_networks_that_nobody_described_cannot_be_built():
    with pytest.raises(ZooError, match="does not say how its networks run"):
        ForwardDefinition(UNKNOWN).build()


@pytest.mark.parametrize("name", ["nn", "checked_widths", "coordinate_grid", "ACTIVATIONS"])
def test_only_public_modules_of_wsl_models_are_built(name):
    with pytest.raises(ZooError, match="no such module"):
        ForwardDefinition(f"wsl.models:{name}").build()


def test_built_modules_are_in_evaluation_mode():
    assert not ForwardDefinition("wsl.models:SmallCNN", {"dropout": 0.5}).build().training
