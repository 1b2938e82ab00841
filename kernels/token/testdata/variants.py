"""Writes variants.json: small tokenizers of every kind that is read, with ids and texts by the tokenizers library (0.23.3).

usage: python variants.py > variants.json
"""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

M = "▁"
CHARS = list("abcdehlnort ABT019.,!{}" + M) + ["é", "中", "文"]
WORDS = ["he", "hel", "lo", "hello", M + "t", "th", "the", M + "the", M + M, M + M + M + M, "12", "01", "ab", "abc", "bc", "aa", "aaa", "中文", "or", "nt", " t", " a", "  "]
TEXTS = ["", " ", "  ", "a", " a", "a ", "hello", " hello the", "the  the   the", "hello\nthe", "aaaaa", "abcabc", "TheBat", "a1b22c019", "190 12", "a.b,c!d",
         "{a}{b}", "中文a中", "é中e", "☃", "a☃☃b", "☃é☃", "▁", "a▁b", "▁▁a ▁", "a b  c   d", "\t\n", "½x²", "x٣y", "<s>", "a<s>b", " <s> a <s> ", "<s><s>", "<m>", "a <m> b", "  <m>  ",
         "word", "a word b", "awordb", "wordword", "word word", "swording word.", "<x>", "a<x> b", "lower LOWER", "Aé", "A\u0301", "\u2003<m>\u2003a", "the<s> the", "é<m>é", "q", "qq", "zaz", "<0x41>",
         "hello" * 5, "ab" * 9 + "c", " " * 9, "T.T,T", "0.1", "..", "!!a!!", ",a,", "a,,b", "A1A"]


def bpe(**options):
    vocab = ["<unk>", "<s>"] + (["<0x%02X>" % b for b in range(256)] if options.get("byte_fallback") else []) + CHARS + WORDS
    ids = {p: i for i, p in enumerate(vocab)}
    merges = [(w[:k], w[k:]) for w in WORDS for k in range(1, len(w)) if w[:k] in ids and w[k:] in ids]
    t = Tokenizer(models.BPE(vocab=ids, merges=merges, **options))
    t.add_special_tokens([AddedToken("<s>", special=True, normalized=False)])
    return t


def seq(*a):
    return pre_tokenizers.Sequence(list(a))


def split(pattern, behavior, invert=False):
    return pre_tokenizers.Split(Regex(pattern) if isinstance(pattern, tuple) else pattern, behavior, invert)


def regex(pattern, behavior, invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


FULL = dict(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
DROP = dict(unk_token="<unk>")
LLAMA = decoders.Sequence([decoders.Replace(M, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def variants():
    for scheme in ("never", "always", "first"):
        for whole in (False, True):
            t = bpe(**FULL)
            t.pre_tokenizer = pre_tokenizers.Metaspace(M, scheme, not whole)
            t.decoder = decoders.Metaspace(M, scheme, not whole)
            yield f"Metaspace {scheme} {'whole' if whole else 'split'}", t
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            t = bpe(**DROP, fuse_unk=False)
            t.pre_tokenizer = regex("[,.!]|[0-9]{2}", behavior, invert)
            yield f"Split {behavior} {'inverted' if invert else ''}", t
        t = bpe(**DROP, fuse_unk=True)
        t.pre_tokenizer = split(" ", behavior)
        t.decoder = decoders.Fuse()
        yield f"Split on a text {behavior}", t
    for individual in (False, True):
        t = bpe(**FULL)
        t.pre_tokenizer = pre_tokenizers.Digits(individual)
        t.decoder = decoders.ByteFallback()
        yield f"Digits {individual}", t
    t = bpe(**FULL)
    t.pre_tokenizer = seq(regex(r"\p{Lu}|\d|\s+", "isolated"), pre_tokenizers.Metaspace(M, "first", True), pre_tokenizers.Digits(True))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(M, "first", True)])
    yield "Sequence", t
    t = bpe(**FULL)
    t.normalizer = normalizers.Sequence([normalizers.Prepend(M), normalizers.Replace(" ", M)])
    t.decoder = LLAMA
    t.add_tokens([AddedToken("<m>", normalized=False), AddedToken("<x>", normalized=False, lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    yield "Llama", t
    t = bpe(**FULL)
    t.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace(Regex("[A-Z]"), "a")])
    t.add_tokens([AddedToken("word", single_word=True, normalized=True), AddedToken("<m>", normalized=True, lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A <s> <unk>", special_tokens=[("<s>", 1), ("<unk>", 0)])
    t.decoder = decoders.Sequence([decoders.Strip("l", 0, 1), decoders.Strip("a", 2, 0), decoders.Replace(Regex("l+"), "L")])
    yield "normalizers", t
    for name, options in (("lstrip", dict(lstrip=True)), ("rstrip", dict(rstrip=True)), ("both", dict(lstrip=True, rstrip=True)), ("plain", {})):
        for normalized in (False, True):
            t = bpe(**FULL)
            t.pre_tokenizer = pre_tokenizers.Metaspace(M, "first", True)
            t.add_tokens([AddedToken("<m>", normalized=normalized, **options), AddedToken("word", single_word=True, normalized=normalized), AddedToken("word word", normalized=normalized)])
            t.add_special_tokens([AddedToken("<x>", normalized=normalized, special=True, **options)])
            t.decoder = decoders.Metaspace(M, "first", True)
            yield f"added tokens {name} {normalized}", t
    yield "unknown characters dropped", bpe()
    yield "whole tokens first", bpe(**FULL, ignore_merges=True)
    t = bpe(unk_token="<unk>", fuse_unk=True)
    t.decoder = decoders.Sequence([decoders.Fuse()])
    yield "unknown characters fused", t
    # some bytes only: a character whose bytes are not all there is unknown
    ids = {p: i for i, p in enumerate(["<unk>", "<0xC3>", "<0xA9>", "<0xE2>", "a", "b", "ab"])}
    t = Tokenizer(models.BPE(vocab=ids, merges=[("a", "b")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    yield "some bytes", t


def main():
    out, r = [], random.Random(5)
    for name, t in variants():
        text = t.to_str()
        t = Tokenizer.from_str(text)
        cases = []
        alphabet = list("aabhelot  ▁▁190.,!Té中☃\n") + ["the", "hello", "<s>", "<m>", "word", "<x>", " word "]
        drawn = ["".join(r.choice(alphabet) for _ in range(r.randint(2, 14))) for _ in range(25)]
        for i, s in enumerate(TEXTS + drawn):
            special = i % 3 == 0
            ids = t.encode(s, add_special_tokens=special).ids
            cases.append({"text": s, "add_special_tokens": special, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False),
                          "decoded_skip": t.decode(ids, skip_special_tokens=True)})
        out.append({"name": name.strip(), "tokenizer": json.loads(text), "cases": cases})
    print("[" + ",\n".join(json.dumps(v) for v in out) + "]")


main()
