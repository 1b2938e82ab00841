"""Has the tools dequantize two matrices of each folder that make.py made.

usage: dequantize.py OUT

Writes OUT/dequantized.safetensors with <folder>/<matrix> in the type that the tool gives.
"""

import json
import sys
from pathlib import Path

import torch
from compressed_tensors.compressors import FloatQuantizationCompressor, NaiveQuantizationCompressor, NVFP4PackedCompressor  # noqa: F401
from compressed_tensors.quantization import QuantizationConfig
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from safetensors.torch import load_file, save_file


def main(out):
    result = {}
    for folder in sorted(p for p in out.iterdir() if p.is_dir() and p.name != "source"):
        tensors = load_file(folder / "model.safetensors")
        for name in ("model.layers.0.self_attn.k_proj", "model.layers.0.mlp.down_proj"):
            parts = {k.removeprefix(name + "."): v for k, v in tensors.items() if k.startswith(name + ".")}
            if folder.name.startswith("ct"):
                config = json.loads((folder / "config.json").read_text())["quantization_config"]
                scheme = next(iter(QuantizationConfig(**config).config_groups.values()))
                tool = NVFP4PackedCompressor if "nvfp4" in folder.name else NaiveQuantizationCompressor
                w = tool.decompress(parts, scheme)["weight"]
            elif folder.name == "modelopt-nvfp4":
                q = NVFP4QTensor(torch.Size((parts["weight"].shape[0], parts["weight"].shape[1] * 2)), torch.float32, parts["weight"])
                w = q.dequantize(torch.float32, scale=parts["weight_scale"], double_scale=parts["weight_scale_2"], block_sizes={-1: 16})
            else:
                continue  # ModelOpt has no function of its own for these
            result[f"{folder.name}/{name}"] = w.detach().contiguous()
            print(folder.name, name, w.dtype, tuple(w.shape))
    save_file(result, out / "dequantized.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
