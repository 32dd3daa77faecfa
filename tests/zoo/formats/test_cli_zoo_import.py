"""``wsl zoo import`` and ``wsl zoo export``: exit codes, messages and help."""

import foreign_zoos
import pytest

from wsl.cli import main
from wsl.zoo import Zoo
from wsl.zoo.formats import FORMATS


def test_a_zoo_goes_in_and_out_and_in(tmp_path, capsys):
    source = foreign_zoos.dws_mnist(tmp_path / "dws")
    assert main(["zoo", "import", "dws", str(source), "--out", str(tmp_path / "a.h5")]) == 0
    assert "6 networks, fingerprint" in capsys.readouterr().out
    assert main(["zoo", "export", "dws", str(tmp_path / "a.h5"), "--out", str(tmp_path / "out")]) == 0
    assert "6 networks as dws" in capsys.readouterr().out
    assert main(["zoo", "import", "dws", str(tmp_path / "out"), "--out", str(tmp_path / "b.h5")]) == 0
    assert Zoo.open(tmp_path / "a.h5").fingerprint == Zoo.open(tmp_path / "b.h5").fingerprint


def test_what_is_not_kept_is_said(tmp_path, caplog):
    source = foreign_zoos.nef(tmp_path / "nef", w0=None)
    assert main(["zoo", "import", "nef", str(source), "--out", str(tmp_path / "a.h5")]) == 0
    assert "say it with --w0" in caplog.text
    command = ["zoo", "import", "nef", str(source), "--w0", "8", "--grid", "14,14", "--out"]
    assert main([*command, str(tmp_path / "b.h5")]) == 0
    forward = Zoo.open(tmp_path / "b.h5").forward
    assert forward.grid == (14, 14) and forward.arguments["w0"] == 8.0


def test_a_module_is_named_traced_and_recorded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n"
        "def make(hidden):\n"
        "    net = nn.Sequential()\n"
        "    net.add_module('a', nn.Linear(3, hidden))\n"
        "    net.add_module('act', nn.Tanh())\n"
        "    net.add_module('b', nn.Linear(hidden, 2, bias=False))\n"
        "    return net\n"
    )
    source = foreign_zoos.state_dicts(tmp_path / "source")
    command = ["zoo", "import", "state_dicts", str(source), "--module", "my_networks:make"]
    command += ["--arguments", '{"hidden": 4}', "--input", "2,3", "--out"]
    assert main([*command, str(tmp_path / "a.h5")]) == 0
    zoo = Zoo.open(tmp_path / "a.h5")
    assert zoo.forward.factory == "my_networks:make" and zoo.forward.arguments == {"hidden": 4}
    assert [scaling.kind for scaling in zoo.spec.scalings] == ["sign"]
    (tmp_path / "spec.txt").write_text(str(zoo.spec))
    command = ["zoo", "import", "state_dicts", str(source), "--spec", str(tmp_path / "spec.txt"), "--out"]
    assert main([*command, str(tmp_path / "b.h5")]) == 0
    assert Zoo.open(tmp_path / "b.h5").spec == zoo.spec


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dws", "SOURCE", "--w0", "3"], "dws has no use for w0: it takes grid"),
        (["nef", "SOURCE"], "SOURCE is not a folder with nefs_"),
        (["nope", "SOURCE"], "state_dicts"),
        (["dws", "SOURCE", "--grid", "28x28"], "--grid 28x28 is no list of sizes"),
        (["state_dicts", "SOURCE", "--module", "wsl.models:Siren"], "--module needs --input"),
        (["state_dicts", "SOURCE", "--input", "1,2"], "name it with --module"),
        (["state_dicts", "SOURCE", "--spec", "SOURCE/absent"], "absent cannot be used"),
        (
            ["state_dicts", "SOURCE", "--module", "wsl.models:Siren", "--input", "1,2"],
            "missing tensors layers.0",
        ),
        (["dws", "SOURCE/absent"], "absent is not there"),
    ],
)
def test_faults_of_the_input_are_one_paragraph_and_exit_code_two(tmp_path, capsys, arguments, message):
    source = foreign_zoos.dws_mnist(tmp_path / "dws")
    filled = [argument.replace("SOURCE", str(source)) for argument in arguments]
    assert main(["zoo", "import", *filled, "--out", str(tmp_path / "a.h5")]) == 2
    error = capsys.readouterr().err
    assert message.replace("SOURCE", str(source)) in error and "Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dws"]


def test_exports_that_lose_the_networks_are_refused(tmp_path, capsys):
    source = foreign_zoos.dws_mnist(tmp_path / "dws")
    main(["zoo", "import", "dws", str(source), "--out", str(tmp_path / "a.h5")])
    assert main(["zoo", "export", "nfn", str(tmp_path / "a.h5"), "--out", str(tmp_path / "out")]) == 2
    assert "output_scale=0.5" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["import", "export"])
def test_help_names_every_format(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["zoo", command, "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{name}:" in text for name in FORMATS) and "never overwritten" in text
    assert "lambda" not in text
