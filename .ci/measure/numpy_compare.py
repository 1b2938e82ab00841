"""Compares a snapshot's BF16 weights with a BF16 GGUF the way a careful user would: numpy and gguf, tensor by tensor."""
import json, mmap, pathlib, sys
import numpy as np
from gguf import GGUFReader

def permute(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

folder, product = pathlib.Path(sys.argv[1]), GGUFReader(sys.argv[2])
config = json.loads((folder / "config.json").read_text())
names = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
got = {t.name: t for t in product.tensors}
bad = 0
for shard in sorted(folder.glob("*.safetensors")):
    with open(shard, "rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    n = int.from_bytes(data[:8], "little")
    for name, e in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = e["data_offsets"]
        w = np.frombuffer(data, np.uint16, (end - begin) // 2, 8 + n + begin).reshape(e["shape"])
        base = name.removesuffix(".weight")
        if base.startswith("model.layers."):
            _, _, layer, part = base.split(".", 3)
            target = f"blk.{layer}.{names[part]}.weight"
        else:
            target = names[base] + ".weight"
        if "q_proj" in name:
            w = permute(w, config["num_attention_heads"])
        if "k_proj" in name:
            w = permute(w, config["num_key_value_heads"])
        want = (w.astype(np.uint32) << 16).view(np.float32)
        t = got.pop(target)
        have = t.data if t.data.dtype == np.float32 else (t.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        if not np.array_equal(want.reshape(-1), have.reshape(-1)):
            print("differs:", target)
            bad += 1
print("left over:", sorted(got))
sys.exit(bool(bad or got))
