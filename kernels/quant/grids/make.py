"""Packs the grids of ggml-common.h (argument 1) into this folder, see README.md."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
GRIDS = {  # name: elements a point, bits an element, values in order of their codes
    "iq2xxs": (8, 2, [8, 25, 43]),
    "iq2xs": (8, 2, [8, 25, 43]),
    "iq2s": (8, 2, [8, 25, 43]),
    "iq3xxs": (4, 4, [4, 12, 20, 28, 36, 44, 52, 62]),
    "iq3s": (4, 4, [1, 3, 5, 7, 9, 11, 13, 15]),
    "iq1s": (8, 2, [255, 0, 1]),  # 255 is -1
}
source = Path(sys.argv[1]).read_text()
for name, (elements, bits, values) in GRIDS.items():
    table = re.search(r"GGML_TABLE_BEGIN\(\w+, %s_grid, \w+\)(.*?)GGML_TABLE_END" % name, source, re.S).group(1)
    packed = bytearray()
    for point in re.findall(r"0x[0-9a-fA-F]+", table):
        codes = [values.index(b) for b in int(point, 16).to_bytes(elements, "little")]
        packed += sum(code << bits * i for i, code in enumerate(codes)).to_bytes(elements * bits // 8, "little")
    (HERE / (name + ".bin")).write_bytes(packed)
