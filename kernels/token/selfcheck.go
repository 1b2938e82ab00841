package token

import (
	"context"
	"encoding/json"

	"github.com/weighmaster/weighmaster/kernels"
)

// selfWords are the pieces of the self-check's vocabulary, most useful first.
var selfWords = []string{"he", "▁a", "th", "▁the", "in", "er", "▁th", "qu", "▁w", "or", "▁b", "ll", "hell", "ret", "turn", "▁in", "等于", "多少", "中文"}

// selfCheck makes one small vocabulary in both forms, tokenizer.json and GGUF,
// and compares them.
func selfCheck(ctx context.Context) (kernels.Report, error) {
	file, vocabulary, err := selfVocabulary()
	if err != nil {
		return kernels.Report{}, err
	}
	a, err := Load(file)
	if err != nil {
		return kernels.Report{}, err
	}
	b, err := NewSPM(vocabulary)
	if err != nil {
		return kernels.Report{}, err
	}
	return Parity(ctx, Local(a), Local(b), Corpus(a, 0))
}

func selfVocabulary() (file []byte, v Vocabulary, err error) {
	ids, rank := map[string]uint32{}, 0
	put := func(text string, kind int32) {
		score := float32(0)
		if kind == TypeNormal {
			score = -float32(rank)
			rank++
		}
		ids[text] = uint32(len(v.Tokens))
		v.Tokens, v.Types, v.Scores = append(v.Tokens, text), append(v.Types, kind), append(v.Scores, score)
	}
	put("<unk>", TypeUnknown)
	put("<s>", TypeControl)
	put("</s>", TypeControl)
	for b := range 256 {
		put(byteToken(byte(b)), TypeByte)
	}
	for _, word := range selfWords {
		put(word, TypeNormal)
	}
	for _, word := range append([]string{"▁ 0123456789.,;:!?()[]{}<>=+-*/\\\"'_#&|abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}, selfWords...) {
		for _, c := range word {
			if _, known := ids[string(c)]; !known && c != ' ' {
				put(string(c), TypeNormal)
			}
		}
	}
	var merges [][2]string
	for _, word := range selfWords {
		for at := range word {
			_, left := ids[word[:at]]
			_, right := ids[word[at:]]
			if left && right {
				merges = append(merges, [2]string{word[:at], word[at:]})
			}
		}
	}
	v.AddBOS, v.BOS, v.EOS = true, 1, 2
	type object = map[string]any
	bos := object{"id": "<s>", "type_id": 0}
	text := object{"id": "A", "type_id": 0}
	file, err = json.Marshal(object{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil,
		"added_tokens":  []object{selfAdded(0, "<unk>"), selfAdded(1, "<s>"), selfAdded(2, "</s>")},
		"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true},
		"post_processor": object{
			"type": "TemplateProcessing", "single": []object{{"SpecialToken": bos}, {"Sequence": text}}, "pair": []object{},
			"special_tokens": object{"<s>": object{"id": "<s>", "ids": []int{1}, "tokens": []string{"<s>"}}},
		},
		"decoder": object{"type": "Sequence", "decoders": []object{
			{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
		}},
		"model": object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": ids, "merges": merges},
	})
	return file, v, err
}

func selfAdded(id int, text string) map[string]any {
	return map[string]any{"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
}
