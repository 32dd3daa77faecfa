"""Models of `transformers`, built from small configurations without weights.

This module imports `transformers`, which takes seconds; only tests that need it should import it.
"""

import torch
import transformers
from torch import Tensor, nn

from architectures.attention import KEY_BIAS
from architectures.decoders import ROTARY
from architectures.known import Known

_GATED = {"hidden_size": 16, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 4}
_ENCODER = {"hidden_size": 6, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2}


def gpt2(**changes: object) -> nn.Module:
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2, "n_inner": 5}
    sizes |= {"bos_token_id": None, "eos_token_id": None}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, use_cache=False, **changes))


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_GATED, vocab_size=11, num_key_value_heads=2, use_cache=False)
    )


def bert_config() -> transformers.BertConfig:
    return transformers.BertConfig(**_ENCODER, vocab_size=11, max_position_embeddings=8)


def vit() -> nn.Module:
    sizes = {"image_size": 8, "patch_size": 4, "num_labels": 4}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**_ENCODER, **sizes))


def gpt_neox() -> nn.Module:
    """Two heads of eight dimensions, two of which are rotated."""
    sizes = {**_GATED, "num_attention_heads": 2, "vocab_size": 11, "max_position_embeddings": 8}
    return transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(**sizes, rotary_pct=0.25, use_cache=False)
    )


def bloom() -> nn.Module:
    """Queries, keys and values lie within each head; a constant slope for each head fixes the heads."""
    sizes = {"vocab_size": 11, "hidden_size": 8, "n_layer": 1, "n_head": 2}
    return transformers.BloomForCausalLM(transformers.BloomConfig(**sizes, use_cache=False))


def falcon() -> nn.Module:
    sizes = {"vocab_size": 11, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"ffn_hidden_size": 5, "multi_query": False, "bos_token_id": None, "eos_token_id": None}
    return transformers.FalconForCausalLM(transformers.FalconConfig(**sizes, use_cache=False))


def gpt_j() -> nn.Module:
    """Two heads of six dimensions, two of which are rotated as one pair."""
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_inner": 5}
    sizes |= {"bos_token_id": None, "eos_token_id": None}
    return transformers.GPTJForCausalLM(transformers.GPTJConfig(**sizes, rotary_dim=2, use_cache=False))


def phi() -> nn.Module:
    """Two heads of eight dimensions, four of which are rotated in two halves."""
    sizes = {**_GATED, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11}
    return transformers.PhiForCausalLM(
        transformers.PhiConfig(**sizes, partial_rotary_factor=0.5, max_position_embeddings=8, use_cache=False)
    )


def t5() -> nn.Module:
    """The bias for relative positions belongs to the heads of all layers of a stack."""
    sizes = {"d_model": 6, "d_kv": 3, "d_ff": 5, "num_layers": 2, "num_heads": 2, "vocab_size": 11}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, relative_attention_num_buckets=8, use_cache=False)
    )


def tokens() -> Tensor:
    return torch.randint(0, 11, (2, 6))


def logits(output: object) -> Tensor:
    return output.logits


def last_hidden_state(output: object) -> Tensor:
    return output.last_hidden_state


ROWS = {
    "gpt2": Known(
        gpt2, tokens, "2^2 3|2^4 5^2 6", output=logits, dull=("*.c_attn.bias[1] along *",), missing=KEY_BIAS
    ),
    "gpt2_eager_attention": Known(
        lambda: gpt2(attn_implementation="eager"),
        tokens,
        "2^2 3|2^4 5^2 6",
        output=logits,
        dull=("*.c_attn.bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "llama_causal": Known(llama, tokens, "2^2 2|2^2 4|2^2 5^2 16", output=logits, missing=ROTARY),
    "bert_masked": Known(
        lambda: transformers.BertForMaskedLM(bert_config()),
        tokens,
        "2^2 3|2^4 5^2 6",
        output=logits,
        dull=("*.key.bias along *",),
        missing=KEY_BIAS,
    ),
    "bert_hidden_state": Known(
        lambda: transformers.BertModel(bert_config()),
        tokens,
        "2^2 3|2^4 5^2",
        output=last_hidden_state,
        dull=("*.key.bias along *",),
        missing=KEY_BIAS,
    ),
    "vit_classifier": Known(
        vit,
        lambda: torch.randn(2, 3, 8, 8),
        "2^2 3|2^4 5^2 6",
        output=logits,
        dull=("*.k_proj.bias along *",),
        missing=KEY_BIAS,
    ),
    "t5": Known(t5, lambda: (tokens(), None, tokens()), "2^4 3|2^12 5^4 6", output=logits),
    "gpt_neox": Known(
        gpt_neox,
        tokens,
        "2^2 5^2 6|2^2 8|2^2 16",
        output=logits,
        dull=("*.query_key_value.bias[5] along *",),
        missing=KEY_BIAS + "; " + ROTARY,
    ),
    "bloom": Known(
        bloom,
        tokens,
        "4|2^2 8 32",
        output=logits,
        dull=("*.query_key_value.bias[1] along *",),
        missing=KEY_BIAS,
    ),
    "falcon": Known(falcon, tokens, "2 5 8|2 16", output=logits, missing=ROTARY),
    "gpt_j": Known(gpt_j, tokens, "2 4|2 5 6|2 12", output=logits, missing=ROTARY),
    "phi": Known(
        phi,
        tokens,
        "2 4|2 5 8|2 16",
        output=logits,
        dull=("*.k_proj.bias[2] along *",),
        missing=KEY_BIAS + "; " + ROTARY,
    ),
}
