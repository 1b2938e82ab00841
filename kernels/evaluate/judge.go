package evaluate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// Names of the checks that a finding can come from.
const (
	checkPrompt   = "prompt"   // our tokenizer's ids are the fixture's
	checkResponse = "response" // there is one
	checkEnd      = "end"      // it ended by itself
	checkAnswer   = "answer"   // it is the expected one
)

// judge says what is wrong with an outcome; nothing means that the fixture
// passed. It only reads the record, so it can be given an altered one.
func judge(f Fixture, o Outcome) []kernels.Finding {
	var found []kernels.Finding
	find := func(check, got, want, hint string) {
		found = append(found, kernels.Finding{Check: check, Where: "fixture " + f.ID, Got: got, Want: want, Hint: hint})
	}
	if at := mismatch(o.PromptIDs, f.PromptIDs); at >= 0 {
		find(checkPrompt, idAt(o.PromptIDs, at), idAt(f.PromptIDs, at), "the tokenizer is not the one that the fixtures were made with")
	}
	switch o.Stop {
	case StopEnd:
	case StopLimit:
		find(checkEnd, fmt.Sprintf("the limit of %d ids reached without a stopping id", f.MaxNewTokens), "an end of its own", "a cut response is no answer, whatever it says")
	default:
		find(checkResponse, strconv.Quote(o.Error), "a whole response", "")
		return found
	}
	if !matches(f.Expect, o.Text) {
		find(checkAnswer, strconv.Quote(o.Text), f.Expect.Match+" "+strconv.Quote(f.Expect.Text), "")
	}
	return found
}

// matches compares an answer with the expectation.
func matches(e Expect, text string) bool {
	if e.Match == "contains" {
		return strings.Contains(text, e.Text)
	}
	return text == e.Text
}

// mismatch is the first place where two id lists differ, −1 where they do not.
func mismatch(a, b []uint32) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func idAt(ids []uint32, at int) string {
	if at >= len(ids) {
		return fmt.Sprintf("no id %d, %d in all", at, len(ids))
	}
	return fmt.Sprintf("id %d = %d, %d in all", at, ids[at], len(ids))
}
