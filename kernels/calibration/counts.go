package calibration

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/placement"
)

// The checks that findings name. CheckLog leaves the calibration undecided.
const (
	CheckLog    = "calibration log"
	CheckChunks = "chunks"
	CheckSize   = "chunk size"
	CheckTokens = "tokens"
	CheckCorpus = "corpus too short"
	CheckTexts  = "calibration texts"
	CheckForm   = "form of the matrix"
	CheckBound  = "binding"
	CheckWords  = "errors of the tool"
)

func decided(f kernels.Finding) bool { return f.Check != CheckLog && !placement.Doubtful(f) }

// counts are the numbers of one calibration. -1 is a number that nobody says.
type counts struct {
	asked, askedSize int64 // by the pipeline; asked 0: all
	selected         int64 // tokens of the corpus
	chunks, size     int64 // that the log says are computed
	counted          int64 // tokens at the log's end
	partly           bool  // of which counted are a part

	opened                   bool // the matrix could be read
	matrixChunks, matrixSize int64
	activations              int64 // of the plain matrices
	entries, texts           int64
	words                    string // an error that the tool wrote
}

var (
	computingLine = regexp.MustCompile(`(?m)^(?:\S+ [A-Z] )?compute_imatrix: computing over (\d{1,9}) chunks, n_ctx=(\d{1,9}), batch_size=\d+`)
	countedLine   = regexp.MustCompile(`(?m)llama_perf_context_print: prompt eval time = +[0-9.]+ ms / +(\d{1,12}) tokens`)
	errorLine     = regexp.MustCompile(`(?m)^(?:\S+ [A-Z] )?(?:compute_imatrix : failed to eval|main : failed to|collect_imatrix: (?:inconsistent|non-finite)|compute_imatrix: (?:you need|there will be not enough)).*$`)
)

// log reads both numbers of the log, and says what it lacks.
func (c *counts) log(log []byte) []kernels.Finding {
	var doubt []kernels.Finding
	missing := func(got, want string) {
		doubt = append(doubt, kernels.Finding{Check: CheckLog, Where: "log", Got: got, Want: want, Hint: "keep the whole log, at verbosity 4"})
	}
	if all := computingLine.FindAllSubmatch(log, 2); len(all) == 1 {
		c.chunks, c.size = number(all[0][1]), number(all[0][2])
	} else {
		missing(fmt.Sprintf("%d lines that say how many chunks are computed", len(all)), "one")
	}
	if all := countedLine.FindAllSubmatch(log, 2); len(all) == 1 {
		c.counted = number(all[0][1])
	} else {
		missing(fmt.Sprintf("%d lines that count the tokens at the end", len(all)), "one")
	}
	if m := errorLine.Find(log); m != nil {
		c.words = string(bytes.ToValidUTF8(m[:min(len(m), 200)], nil))
	}
	return doubt
}

func number(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// judge holds all numbers against each other.
func (c counts) judge() []kernels.Finding {
	var found []kernels.Finding
	add := func(check, where, got, want, hint string) {
		found = append(found, kernels.Finding{Check: check, Where: where, Got: got, Want: want, Hint: hint})
	}
	if c.words != "" {
		add(CheckWords, "log", fmt.Sprintf("%q", c.words), "none", "the run did not end as it should")
	}
	if !c.opened || c.askedSize < 1 {
		return found
	}
	want := c.asked
	if c.selected >= 0 {
		most := c.selected / c.askedSize
		if want == 0 {
			want = most
		}
		if want > most {
			add(CheckCorpus, "corpus", fmt.Sprintf("%d tokens, %d chunks of %d", c.selected, most, c.askedSize), asText(want, "chunks"), "take a longer corpus or fewer chunks")
		}
	}
	const half = "the file is from a part of the run, or from another run"
	for _, x := range []struct {
		check, where string
		got, want    int64
	}{
		{CheckChunks, "the log", c.chunks, want}, {CheckChunks, "the matrix", c.matrixChunks, want},
		{CheckSize, "the log", c.size, c.askedSize}, {CheckSize, "the matrix", c.matrixSize, c.askedSize},
		{CheckTokens, "the log's end", c.ended(want * c.askedSize), want * c.askedSize}, {CheckTokens, "activations of the matrix", c.activations, want * c.askedSize},
	} {
		unknown := x.got < 0 || x.want == 0 // CheckLog says so, or all of a corpus that is not counted here
		if !unknown && x.got != x.want {
			add(x.check, x.where, fmt.Sprint(x.got), fmt.Sprint(x.want), half)
		}
	}
	if c.texts != 1 {
		add(CheckTexts, "the matrix", asText(c.texts, "texts"), "one: this run's", "earlier matrices were merged in (--in-file); each has to be made alone")
	}
	if c.entries < 1 {
		add(CheckForm, "the matrix", "no entries", "statistics of every weight", half)
	}
	return found
}

// ended is what the log's end counts; a part of the tokens stands for all of them where that is all it tells.
func (c counts) ended(all int64) int64 {
	if c.partly && c.counted > 0 && c.counted < all {
		return all
	}
	return c.counted
}
