"""Quantizes a small random Llama with NVIDIA ModelOpt and with compressed-tensors.

usage: make.py OUT

OUT/source is a Hugging Face folder in BF16; the others are what the tools
export of it. Weights depend on nothing but the fixed seeds below.
"""

import shutil
import sys
from copy import deepcopy
from pathlib import Path

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from compressed_tensors.utils import update_offload_parameter
from transformers import LlamaConfig, LlamaForCausalLM


def source():
    config = LlamaConfig(
        hidden_size=128, intermediate_size=160, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        vocab_size=64, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    for seed, (name, p) in enumerate(sorted(model.named_parameters())):
        g = torch.Generator().manual_seed(seed)
        z = torch.randn(p.shape, generator=g) / (torch.rand(p.shape, generator=g) + 0.2) * 0.03  # heavy tails
        p.data = ((1 + z) if p.dim() == 1 else z).to(torch.bfloat16)
    return model.eval()


def modelopt(model, config, folder):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    g = torch.Generator().manual_seed(1)

    def calibrate(m):
        for _ in range(4):
            m(torch.randint(0, 64, (1, 32), generator=g))

    config = deepcopy(config)
    mtq.quantize(model, config, calibrate)
    with torch.inference_mode():
        export_hf_checkpoint(model, dtype=torch.bfloat16, export_dir=str(folder))


def compressed(model, config, folder):
    """Round to nearest with the library's own parameters, as llm-compressor does without calibration."""
    apply_quantization_config(model, QuantizationConfig(**config))
    for module in model.modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None or scheme.weights is None or not hasattr(module, "weight_scale"):
            continue
        w, args = module.weight.data.float(), scheme.weights
        rows, columns = w.shape
        if args.strategy == "tensor":
            low, high = w.min().reshape(1), w.max().reshape(1)
        elif args.strategy == "channel":
            low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
        elif args.strategy == "block":
            a, b = args.block_structure
            pad = torch.nn.functional.pad(w, (0, -columns % b, 0, -rows % a))
            tiles = pad.reshape(pad.shape[0] // a, a, pad.shape[1] // b, b)
            low, high = tiles.amin((1, 3)), tiles.amax((1, 3))
        else:  # tensor_group
            tiles = w.reshape(rows, -1, args.group_size)
            low, high = tiles.amin(2), tiles.amax(2)
            scale = generate_gparam(w.min(), w.max())
            update_offload_parameter(module, "weight_global_scale", scale.reshape(module.weight_global_scale.shape))
        extra = {"global_scale": module.weight_global_scale} if hasattr(module, "weight_global_scale") else {}
        s, _ = calculate_qparams(low, high, args, **extra)
        update_offload_parameter(module, "weight_scale", s.reshape(module.weight_scale.shape).to(module.weight_scale.dtype))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(folder)


LINEAR = {"targets": ["Linear"]}
FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}
FLOAT4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16, "scale_dtype": torch.float8_e4m3fn}


def ct(weights, form):
    return {"config_groups": {"group_0": LINEAR | {"weights": weights}}, "ignore": ["lm_head"], "format": form}


def main(out):
    source().save_pretrained(out / "source")
    load = lambda: LlamaForCausalLM.from_pretrained(out / "source", torch_dtype=torch.bfloat16).eval()
    jobs = {}
    import modelopt.torch.quantization as mtq

    for name, config in {
        "modelopt-fp8": mtq.FP8_DEFAULT_CFG, "modelopt-fp8-channel": mtq.FP8_PER_CHANNEL_PER_TOKEN_CFG,
        "modelopt-fp8-block": mtq.FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG, "modelopt-nvfp4": mtq.NVFP4_DEFAULT_CFG,
    }.items():
        jobs[name] = lambda folder, config=config: modelopt(load(), config, folder)
    kv = deepcopy(mtq.NVFP4_DEFAULT_CFG)
    kv = mtq.update_quant_cfg_with_kv_cache_quant(kv, mtq.FP8_KV_CFG["quant_cfg"])
    jobs["modelopt-nvfp4-kv"] = lambda folder: modelopt(load(), kv, folder)
    for name, weights, form in (
        ("ct-fp8", FLOAT8 | {"strategy": "tensor"}, "float-quantized"),
        ("ct-fp8-channel", FLOAT8 | {"strategy": "channel"}, "float-quantized"),
        ("ct-fp8-block", FLOAT8 | {"strategy": "block", "block_structure": [128, 128]}, "float-quantized"),
        ("ct-nvfp4", FLOAT4, "nvfp4-pack-quantized"),
    ):
        jobs[name] = lambda folder, weights=weights, form=form: compressed(load(), ct(weights, form), folder)
    for name, job in jobs.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        shutil.rmtree(out / name, ignore_errors=True)
        try:
            job(out / name)
            print("made", name)
        except Exception as e:
            import traceback

            traceback.print_exc()
            print("FAILED", name, e)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
