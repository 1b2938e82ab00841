# Prints the digests of lowfloat_test.go, of conversions by PyTorch 2.15.0 (argument: torch)
# and by ml_dtypes 0.6.0 (argument: ml_dtypes).
import hashlib
import sys
import numpy as np


def show(name, codes):
    print(name, hashlib.sha256(np.ascontiguousarray(codes).tobytes()).hexdigest())


def quiet(f):
    bits = f.view(np.uint32).copy()
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    bits[nan] = (bits[nan] & 0x80000000) | 0x7FC00000
    return bits


# Every upper part of a float32, with the lower bits that tell a tie from its neighbours.
low = np.array([0, 1, 0x7FF, 0x800, 0xFFF], dtype=np.uint32)
x = (np.arange(1 << 20, dtype=np.uint32)[:, None] << 12 | low).ravel().view(np.float32)

if sys.argv[1] == "torch":
    import torch

    for name, t in [("E4M3", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2), ("E8M0", torch.float8_e8m0fnu)]:
        show(name, quiet(torch.arange(256, dtype=torch.uint8).view(t).float().numpy()))
    show("FromE4M3", torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy())
else:
    import ml_dtypes as m

    for name, t, n in [("E4M3", m.float8_e4m3fn, 256), ("E5M2", m.float8_e5m2, 256), ("E8M0", m.float8_e8m0fnu, 256),
                       ("E3M2", m.float6_e3m2fn, 64), ("E2M3", m.float6_e2m3fn, 64), ("E2M1", m.float4_e2m1fn, 16)]:
        show(name, quiet(np.arange(n, dtype=np.uint8).view(t).astype(np.float32)))
    # The format has neither NaN nor infinity: saturate first.
    f = np.where(np.isnan(x), np.float32(6), np.copysign(np.minimum(np.abs(x), np.float32(6)), x)).astype(np.float32)
    show("FromE2M1", f.astype(m.float4_e2m1fn).view(np.uint8))
