package token

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// kernelLimits is what is refused by name, and what a comparison cannot show.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "models other than byte-pair encoding are refused by name", Probe: func(context.Context) error {
			return refusesFile(`"type":"BPE"`, `"type":"Unigram"`, "Unigram")
		}},
		{What: "pre-tokenizers that are not covered are refused by name", Probe: func(context.Context) error {
			return refusesFile(`"type":"Metaspace"`, `"type":"UnheardOf"`, "UnheardOf")
		}},
		{What: "expressions that other engines could read otherwise are refused by name", Probe: func(context.Context) error {
			return refusesFile(`"prepend_scheme":"never","replacement":"▁","split":true,"type":"Metaspace"`, `"pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated","invert":false,"type":"Split"`, "look-around")
		}},
		{What: "pre-tokenizers of GGUF that are not covered are refused by name", Probe: func(context.Context) error {
			_, err := NewByteLevel(Vocabulary{}, nil, "unheard-of")
			return kernels.Refuses(kernels.Report{}, err, "unheard-of")
		}},
		{What: "what the corpus does not show is not compared", Probe: func(ctx context.Context) error {
			file, _, err := selfVocabulary()
			if err != nil {
				return err
			}
			a, err := Load(file)
			if err != nil {
				return err
			}
			var corpus []string
			for _, s := range Corpus(a, 0) {
				if !strings.Contains(s, "q") {
					corpus = append(corpus, s)
				}
			}
			for i := 0; len(corpus) < MinCorpus; i++ {
				corpus = append(corpus, fmt.Sprint("the hall ", i))
			}
			other := faulty{Encoder: a, encode: func(ids []uint32, text string) []uint32 {
				if strings.Contains(text, "q") {
					return nil
				}
				return ids
			}}
			return kernels.Unseen(Parity(ctx, Local(other), Local(a), corpus))
		}},
	}
}

// refusesFile loads the built-in tokenizer.json with one word changed.
func refusesFile(from, to, words string) error {
	file, _, err := selfVocabulary()
	if err != nil {
		return err
	}
	_, err = Load(bytes.Replace(file, []byte(from), []byte(to), 1))
	return kernels.Refuses(kernels.Report{}, err, words)
}
