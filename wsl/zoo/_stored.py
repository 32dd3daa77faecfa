"""An architecture as a zoo file describes it: its texts are parsed when they are first asked for."""

from functools import cached_property
from pathlib import Path

from wsl.spec import WeightSpec
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._json import load_json
from wsl.zoo._layout import Architecture, Parameter, parameter_table, row_length
from wsl.zoo._writer import parameter_records


class StoredArchitecture(Architecture):
    """What :class:`Architecture` is, read from a file.

    Args:
        path: the file, for messages.
        name: as the file has it, like the other texts.
        spec_text, forward_text: the specification and the forward definition.
        records: the bytes of the table of its parameters.
        width: values in a stored row.

    Raises:
        ZooError: on first use of what does not parse, or disagrees with the table or the stored rows.
    """

    _path: Path
    _records: bytes

    def __init__(
        self, path: Path, name: str, spec_text: str, forward_text: str, records: bytes, width: int
    ) -> None:
        self.__dict__.update(name=name, spec_text=spec_text, forward_text=forward_text, width=width)
        self.__dict__.update(_path=path, _records=records)

    @cached_property
    def spec(self) -> WeightSpec:
        return self._checked[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._checked[1]

    @cached_property
    def forward(self) -> ForwardDefinition:
        try:
            return ForwardDefinition.from_dict(load_json("forward definition", self.forward_text))
        except ZooError as err:
            raise ZooError(f"{self._path}: {err}") from err.__cause__

    @cached_property
    def _checked(self) -> tuple[WeightSpec, tuple[Parameter, ...]]:
        try:
            spec = WeightSpec.parse(self.spec_text)
        except ValueError as err:
            raise ZooError(
                f"{self._path}: the weight-space specification of {self.name} does not parse: {err}"
            ) from err
        parameters = parameter_table(spec)
        if parameter_records(parameters).tobytes() != self._records:
            raise ZooError(
                f"{self._path}: the parameter table of {self.name} disagrees with its weight-space "
                "specification. The file is damaged."
            )
        if row_length(parameters) != self.width:
            raise ZooError(
                f"{self._path}: the rows of {self.name} have {self.width} values, but its specification has "
                f"{row_length(parameters)}. The file is damaged."
            )
        return spec, parameters
