package calibration

import (
	"bytes"
	"testing"
)

// FuzzLog: whatever the log holds, a run is whole only with one line of each number, and with the numbers asked for.
func FuzzLog(f *testing.F) {
	f.Add([]byte(sampleLog))
	f.Add([]byte(sampleLog + sampleLog))
	f.Add(bytes.Replace([]byte(sampleLog), []byte("over 2 chunks"), []byte("over 999999999 chunks"), 1))
	f.Add([]byte("compute_imatrix: computing over 2 chunks, n_ctx=99999999999999999999, batch_size=1\n"))
	f.Add([]byte("0.00.1.2 I compute_imatrix: computing over 2 chunks, n_ctx=16, batch_size=1\nllama_perf_context_print: prompt eval time = 1 ms / 32 tokens"))
	f.Fuzz(func(t *testing.T, log []byte) {
		c := counts{askedSize: 16, selected: 40, chunks: -1, size: -1, counted: -1, opened: true, matrixChunks: 2, matrixSize: 16, activations: 32, entries: 1, texts: 1}
		doubt := c.log(log)
		found := c.judge()
		if len(doubt) == 0 && (len(computingLine.FindAll(log, -1)) != 1 || len(countedLine.FindAll(log, -1)) != 1) {
			t.Errorf("no doubt over %q", log)
		}
		if len(doubt)+len(found) == 0 && (c.chunks != 2 || c.size != 16 || c.counted != 32) {
			t.Errorf("passed with %d chunks of %d, %d tokens", c.chunks, c.size, c.counted)
		}
	})
}
