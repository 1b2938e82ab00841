"""Dequantizes with gguf, llama.cpp's own Python package.

usage: dequantize.py FOLDER          for every TYPE.blocks of a type that gguf reads, write TYPE.floats
       dequantize.py FILE.gguf...    print, as JSON, the digest of each tensor's weights
       dequantize.py --stored FILE.gguf...    the same of its bytes as they stand in the file
"""
import hashlib
import json
import sys
from pathlib import Path

import gguf
import numpy as np


def digest(tensor):
    """First eight bytes of the SHA-256 of the weights as little-endian float32, or of the stored bytes."""
    if sys.argv[1] == "--stored":
        return hashlib.sha256(tensor.data.tobytes()).hexdigest()[:16]
    weights = gguf.dequantize(tensor.data, tensor.tensor_type)
    return hashlib.sha256(np.ascontiguousarray(weights, dtype="<f4").tobytes()).hexdigest()[:16]


if Path(sys.argv[1]).is_dir():
    for path in sorted(Path(sys.argv[1]).glob("*.blocks")):
        if path.stem not in gguf.GGMLQuantizationType.__members__:
            continue
        kind = gguf.GGMLQuantizationType[path.stem]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        try:
            gguf.dequantize(np.zeros((1, size), dtype=np.uint8), kind)
        except NotImplementedError:
            continue
        blocks = np.frombuffer(path.read_bytes(), dtype=np.uint8).reshape(-1, size)
        with np.errstate(all="ignore"):
            weights = gguf.dequantize(blocks, kind)
        path.with_suffix(".floats").write_bytes(weights.astype("<f4").tobytes())
else:
    out = {}
    for path in sys.argv[1:]:
        if path != "--stored":
            out[path] = {t.name: digest(t) for t in gguf.GGUFReader(path).tensors}
    json.dump(out, sys.stdout, indent=1)
    print()
