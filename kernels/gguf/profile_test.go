package gguf

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
)

// TestProfilesAreWhatReadersDid compares what is said of llama.cpp and gguf-py
// with what both did on the same files.
func TestProfilesAreWhatReadersDid(t *testing.T) {
	measured := map[string][]string{}
	for line := range strings.Lines(string(read(t, "../../fixtures/hostile/readers/readers.tsv"))) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		measured[fields[0]] = fields[1:]
	}
	// Where nothing is said although a reader loads the file: it is a matter of
	// our limits, of keys that are no matter of the container, or gguf-py does not see that the file ends.
	silent := map[string]bool{
		"key longer than any": true, "part of a split": true, "part beyond the split": true, "split without a number": true,
		"array narrower than its element type": true, "unknown element type": true,
	}
	said, refused := 0, 0
	for _, c := range append(hostile.GGUF(), hostile.Disputed()...) {
		want, ok := measured[c.Name]
		if !ok {
			t.Errorf("%s: it was not measured; make readers.tsv again", c.Name)
			continue
		}
		var profiles []Profile
		f, err := Open(bytes.NewReader(c.Data), int64(len(c.Data)))
		if err == nil {
			profiles = f.Profiles()
		} else if profiles, err = Refused(bytes.NewReader(c.Data), int64(len(c.Data))); err != nil {
			if loads := want[0] == "loads" || want[1] == "loads"; loads != silent[c.Name] {
				t.Errorf("%s: got no word (%v), want %v", c.Name, err, want)
			}
			continue
		}
		for i, p := range profiles {
			got := "refuses"
			if p.Loads {
				got = "loads"
			}
			if said++; !p.Loads {
				refused++
			}
			if got != want[i] || p.Loads != (len(p.Reasons) == 0) {
				t.Errorf("%s: got %s %s it %v, it %s it", c.Name, p.Reader, got, p.Reasons, want[i])
			}
		}
	}
	if said < 60 || refused < 10 {
		t.Errorf("got %d words and %d refusals, want more: cases were lost", said, refused)
	}
}

// TestProfilesOfASplit: the quirks of every part count.
func TestProfilesOfASplit(t *testing.T) {
	name := strings.Repeat("n", 64)
	f, err := OpenSplit([]Part{part("", splitHeader(0, 2, 2, "a")), part("", splitHeader(1, 2, 2, name))})
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Profiles(); p[0].Loads || !p[1].Loads || len(f.Warnings) != 1 || !strings.HasPrefix(f.Warnings[0], "part 2: ") {
		t.Errorf("got %+v and %q", p, f.Warnings)
	}
}

// TestNobodyLoadsACutFile, also where its tensors stand in another order.
func TestNobodyLoadsACutFile(t *testing.T) {
	b := hostile.V3(2, 0).Tensor("a", uint32(F32), 32, 8).Tensor("b", uint32(F32), 0, 8).Data(32, 63)
	if p, err := Refused(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), "missing or cut: a") {
		t.Errorf("got %+v, %v, want no reader and the cut tensor named", p, err)
	}
}
