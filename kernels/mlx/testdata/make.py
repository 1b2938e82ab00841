"""Makes small random checkpoints and converts them with mlx-lm.

usage: make.py OUT [few]

OUT/<model>/source is a Hugging Face folder, OUT/<model>/<variant> what
mlx_lm.convert made of it. "few" makes the variants that are kept in the
repository. Weights depend on nothing but the fixed seeds below.
"""

import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
import mlx_lm.utils as utils
import numpy as np
from mlx_lm import convert
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)

COMMON = {
    "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
}

MODELS = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": False},
    # its lm_head is dropped by sanitize, its type is another one, its MLP has a width that 32 does not divide
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float16", "tie_word_embeddings": True, "intermediate_size": 80},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "torch_dtype": "bfloat16", "tie_word_embeddings": False,
                "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 64, "num_hidden_layers": 1},
    "qwen3moe": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16", "tie_word_embeddings": False,
                 "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1, "mlp_only_layers": [],
                 "norm_topk_prob": True, "num_hidden_layers": 1},
}


def shapes(c):
    h, i, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {"model.embed_tokens.weight": (c["vocab_size"], h), "lm_head.weight": (c["vocab_size"], h), "model.norm.weight": (h,)}
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        out |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,)}
        out |= {p + f"self_attn.{k}_proj.weight": s for k, s in {"q": (q, h), "k": (kv, h), "v": (kv, h), "o": (h, q)}.items()}
        if c["model_type"].startswith("qwen3"):
            out |= {p + "self_attn.q_norm.weight": (d,), p + "self_attn.k_norm.weight": (d,)}
        if c["model_type"] == "mixtral":
            out[p + "block_sparse_moe.gate.weight"] = (c["num_local_experts"], h)
            for e in range(c["num_local_experts"]):
                x = p + f"block_sparse_moe.experts.{e}."
                out |= {x + "w1.weight": (i, h), x + "w2.weight": (h, i), x + "w3.weight": (i, h)}
        elif c["model_type"] == "qwen3_moe":
            m = c["moe_intermediate_size"]
            out[p + "mlp.gate.weight"] = (c["num_experts"], h)
            for e in range(c["num_experts"]):
                x = p + f"mlp.experts.{e}."
                out |= {x + "gate_proj.weight": (m, h), x + "down_proj.weight": (h, m), x + "up_proj.weight": (m, h)}
        else:
            out |= {p + "mlp.gate_proj.weight": (i, h), p + "mlp.up_proj.weight": (i, h), p + "mlp.down_proj.weight": (h, i)}
    if c["model_type"] == "llama":
        out["model.layers.0.self_attn.rotary_emb.inv_freq"] = (d // 2,)
    return out


def source(folder, config):
    folder.mkdir(parents=True)
    dtype = getattr(mx, config["torch_dtype"])
    weights = {}
    for seed, (name, shape) in enumerate(sorted(shapes(config).items())):
        r = np.random.default_rng(seed)
        w = (0.05 * r.standard_t(4, size=shape)).astype(np.float32)  # heavy tails, as real weights have
        if len(shape) == 1:
            w = 1 + w
        elif name.endswith("q_proj.weight"):
            w[0, :64] = 0  # groups without spread
            w[1, :64] = 0.125
            w[2, :64] = -np.abs(w[2, :64])  # groups on one side of zero
            w[3, :64] = np.abs(w[3, :64]) + 1
            w[4, :64] *= 1e-6
        weights[name] = mx.array(w).astype(dtype)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": [2, 3]}))
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    words = ["a weight is a number", "numbers are stored in groups", "each group has a scale"] * 4
    t.train_from_iterator(words, trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>", "<bos>", "<eos>", "<pad>"], show_progress=False))
    fast = PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)


def layered(path, module):
    """Its own bits for some layers and none for others."""
    if "v_proj" in path:
        return {"group_size": 32, "bits": 8, "mode": "affine"}
    if "o_proj" in path:
        return {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    return "down_proj" not in path


def variants(model, few):
    affine = [(b, g) for b in (1, 2, 3, 4, 5, 6, 8) for g in (32, 64, 128)]
    if few:
        affine = [(3, 32), (4, 64)] if model == "llama" else []
    for bits, group in affine if model in ("llama", "qwen3") else [(4, 64)] if not few else []:
        yield f"affine-{bits}-{group}", {"q_bits": bits, "q_group_size": group}
    if not few or model == "llama":
        for mode in ("mxfp4", "nvfp4", "mxfp8"):
            yield mode, {"q_mode": mode}
    if model == "llama":
        yield "layered", {"q_bits": 4, "q_group_size": 64, "quant_predicate": layered}
    if model == "llama" and not few:
        yield "mixed", {"q_bits": 4, "q_group_size": 32, "quant_predicate": "mixed_3_6"}
        yield "half", {"q_bits": 4, "q_group_size": 64, "dtype": "float16"}
        yield "single", {"q_bits": 6, "q_group_size": 64, "dtype": "float32"}
        yield "plain", None


def global_scale(folder, src):
    """nvfp4 with a scale for each expert, which only the library offers."""
    model, tokenizer, config = utils.load(str(src), return_config=True)
    model, config = utils.quantize_model(model, config, None, None, mode="nvfp4", global_scale=True)
    utils.save(folder, str(src), model, tokenizer, config)


def main(out, few):
    for name, extra in MODELS.items():
        if few and name != "llama":
            continue
        src = out / name / "source"
        source(src, COMMON | extra)
        for variant, arguments in variants(name, few):
            arguments = {} if arguments is None else {"quantize": True} | arguments
            convert(str(src), str(out / name / variant), **arguments)
        if name in ("mixtral", "qwen3moe"):
            global_scale(out / name / "global", src)
    # what a forger would do: 4 bits from the 8 bits, not from the source
    llama = out / "llama"
    eight = llama / "affine-8-64"
    if few:
        eight = out / "eight"
        convert(str(llama / "source"), str(eight), quantize=True, q_bits=8, q_group_size=64)
    convert(str(eight), str(out / "back"), dequantize=True)
    convert(str(out / "back"), str(llama / "from-8"), quantize=True, q_bits=4, q_group_size=64)
    shutil.rmtree(out / "back")
    if few:
        shutil.rmtree(eight)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "few" in sys.argv[2:])
