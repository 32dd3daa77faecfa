"""What tracing costs: a ResNet-50 against its own forward pass, GPT-2 small, a Llama of a billion parameters.

    pytest tests/benchmarks/bench_trace.py -m slow -s
    python tests/benchmarks/bench_trace.py            # the figures alone

Each network runs in a process of its own, so that the peak memory is its own too; no weights are pretrained.
The ResNet takes images 224x224; the Llama lies on the meta device, where tensors have no entries.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import wsl

ROOT = Path(__file__).parents[2]
ROUNDS = 3
GIGABYTE = 1 << 20  # in units of ru_maxrss


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        sizes = (inputs, inner, inner, 4 * inner)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, k, s, k // 2, bias=False)
            for a, b, k, s in zip(sizes, sizes[1:], (1, 3, 1), (1, stride, 1), strict=False)
        )
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, sizes[1:]))
        self.shortcut = nn.Sequential()
        if inputs != 4 * inner:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(torch.relu(y) if i else y))
        return torch.relu(y + self.shortcut(x))


def resnet50() -> nn.Sequential:
    """25.6 million parameters in the layout of He et al. 2015 (arXiv:1512.03385)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inputs, inner, 1 if i else stride))
            inputs = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).eval()


def seconds(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The least wall-clock seconds of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def figures(spec: wsl.WeightSpec, module: nn.Module, traced: float, forward: float) -> dict[str, float]:
    return {
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "trace": traced,
        "forward": forward,
        "hidden axes": len(spec.hidden_axes),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE,
    }


def measure_resnet() -> dict[str, float]:
    module, images = resnet50(), torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        module(images)
        forward = seconds(lambda: module(images))
    spec = wsl.trace(module, images)
    return figures(spec, module, seconds(lambda: wsl.trace(module, images)), forward)


def measure_gpt2() -> dict[str, float]:
    from transformers import GPT2Config, GPT2LMHeadModel

    module = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
    tokens = torch.randint(0, 1000, (2, 32))
    with torch.no_grad():
        forward = seconds(lambda: module(tokens))
    start = time.perf_counter()
    spec = wsl.trace(module, tokens, output=lambda output: output.logits)
    return figures(spec, module, time.perf_counter() - start, forward)


def measure_llama() -> dict[str, float]:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000, "num_hidden_layers": 16}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    with torch.device("meta"):
        module = LlamaForCausalLM(LlamaConfig(**sizes, **heads, use_cache=False)).eval()
    tokens = torch.randint(0, 1000, (2, 16))
    start = time.perf_counter()
    spec = wsl.trace(module, tokens, output=lambda output: output.logits)
    return figures(spec, module, time.perf_counter() - start, 0.0)


NETWORKS = {"ResNet-50": measure_resnet, "GPT-2 small": measure_gpt2, "Llama 1B (meta)": measure_llama}


def measure_all() -> dict[str, dict[str, float]]:
    """The figures of every network, each from its own process."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = {}
    for name in NETWORKS:
        command = [sys.executable, __file__, name]
        output = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
        )
        found[name] = json.loads(output.stdout)
    return found


def report(found: dict[str, dict[str, float]]) -> str:
    """The table, with the targets."""
    lines = [f"{'':16}{'parameters':>12}{'hidden axes':>13}{'forward s':>11}{'trace s':>9}{'peak GB':>9}"]
    for name, row in found.items():
        lines.append(
            f"{name:16}{row['parameters'] / 1e6:11.1f}M{row['hidden axes']:13.0f}{row['forward']:11.2f}"
            f"{row['trace']:9.2f}{row['peak']:9.2f}"
        )
    resnet = found["ResNet-50"]
    allowed = 3 * resnet["forward"] + 1
    lines += [
        f"ResNet-50: {resnet['trace'] / resnet['forward']:.1f} forward passes "
        f"(target: three and a second, here {allowed:.1f} s)",
        "GPT-2 small: target 20 s on two cores; Llama 1B: targets 30 s and 2 GB",
    ]
    return "\n".join(lines) + "\n"


def test_figures_can_be_taken() -> None:
    found = measure_all()
    sys.stdout.write("\n" + report(found))
    assert 25e6 < found["ResNet-50"]["parameters"] < 26e6
    # The streams and what lies inside of each block: of a layer its heads, their inner axes, the MLP.
    assert found["ResNet-50"]["hidden axes"] == 1 + 4 + 2 * 16
    assert found["GPT-2 small"]["hidden axes"] == 1 + 4 * 12
    assert found["Llama 1B (meta)"]["hidden axes"] == 1 + 4 * 16
    assert found["Llama 1B (meta)"]["parameters"] > 1e9
    assert found["Llama 1B (meta)"]["peak"] < 2


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(NETWORKS[sys.argv[1]]()))
    else:
        sys.stdout.write(report(measure_all()))
