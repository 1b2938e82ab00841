package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub"
)

// Kinds of fault that the acquire kernel finds.
const (
	faultBytes    = "changed bytes"
	faultSize     = "wrong size"
	faultPointer  = "LFS pointer"
	faultOther    = "another file"
	faultRange    = "wrong range"
	faultRevision = "wrong revision"
)

// AcquireKernel describes the check of acquired files against their publisher's listing.
func AcquireKernel() kernels.Kernel {
	return kernels.Kernel{
		Name: "acquire", Version: "1.0.0", Spec: "https://huggingface.co/docs/hub/api",
		Summary: "every file of a publisher revision against the publisher's listing: size, SHA-256 or git blob id, no LFS pointer",
		Limits:  acquireLimits(),
		Gates:   []kernels.Gate{{Metric: "files", Unit: "files", Compare: kernels.AtLeast, Value: 1}},
		Faults:  []string{faultBytes, faultSize, faultPointer, faultOther, faultRange, faultRevision},
		SelfCheck: func(context.Context) (kernels.Report, error) {
			r := AcquireKernel().NewReport()
			sample := []byte(strings.Repeat("weights ", 100))
			pin := schemas.Publisher{Repository: "weighmaster/sample", Revision: strings.Repeat("0123456789", 4)}
			if err := plantInSample(&r.Controls, "sample.bin", sample, true); err != nil {
				return r, err
			}
			plantProtocol(&r.Controls, pin)
			r.Metric("files", "files", 1)
			return r, r.Finish()
		},
	}
}

// judgeFile compares a file's sums, and its first bytes where given, with the listing.
func judgeFile(want listed, got digest.Sums, head []byte) []kernels.Finding {
	var found []kernels.Finding
	find := func(check, got, want, hint string) {
		found = append(found, kernels.Finding{Check: check, Got: got, Want: want, Hint: hint})
	}
	const again = "fetch the file again; if it stays so, ask the publisher"
	pointer := hub.IsPointer(head)
	if got.Size != want.size {
		found = append(found, sizeFinding(want, fmt.Sprint(got.Size), pointer))
	} else if pointer {
		find("pointer", "a Git LFS pointer", "the file itself", "this is an LFS pointer, not the file")
	}
	if want.sha256 != "" && got.SHA256 != want.sha256 {
		find("sha256", got.SHA256.String(), want.sha256.String(), again)
	}
	if want.gitBlob != "" && got.GitBlob != want.gitBlob {
		find("git-blob", got.GitBlob, want.gitBlob, again)
	}
	if want.sha256 == "" && want.gitBlob == "" {
		find("hash", "none listed", "a SHA-256 or a git blob id", "nothing can be checked")
	}
	for i := range found {
		found[i].Where = want.path
	}
	return found
}

func sizeFinding(want listed, got string, pointer bool) kernels.Finding {
	f := kernels.Finding{Check: "size", Where: want.path, Got: got + " bytes", Want: fmt.Sprintf("%d bytes", want.size), Hint: "fetch the file again; if it stays so, ask the publisher"}
	if pointer {
		f.Got, f.Hint = f.Got+" of a Git LFS pointer", "this is an LFS pointer, not the file"
	}
	return f
}

// plantAcquire plants faults in a copy of the start of one acquired file of
// each kind: one checked by SHA-256 and one by git blob id, as far as there are both.
func plantAcquire(c *kernels.Controls, pin schemas.Publisher, folder string, files []listed) error {
	for _, bySHA256 := range []bool{true, false} {
		for _, l := range files {
			if l.size == 0 || (l.sha256 != "") != bySHA256 {
				continue
			}
			sample, err := startOf(filepath.Join(folder, filepath.FromSlash(l.path)))
			if err != nil {
				return err
			}
			if err := plantInSample(c, l.path, sample, bySHA256); err != nil {
				return err
			}
			break
		}
	}
	plantProtocol(c, pin)
	return nil
}

const sampleBytes = 1 << 20 // at most this much of a file is copied to plant faults in

func startOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, sampleBytes))
}

func plantInSample(c *kernels.Controls, name string, sample []byte, bySHA256 bool) error {
	sums, err := sumsOf(sample)
	if err != nil {
		return err
	}
	want := listed{path: name, size: sums.Size, gitBlob: sums.GitBlob}
	by := "git blob id"
	if bySHA256 {
		want.gitBlob, want.sha256, by = "", sums.SHA256, "SHA-256"
	}
	if found := judgeFile(want, sums, nil); len(found) > 0 {
		return fmt.Errorf("the honest copy of %s is refused: %s", name, found[0])
	}
	flipped := bytes.Clone(sample)
	flipped[len(flipped)/2] ^= 1
	pointer := fmt.Appendf(nil, "%s\noid sha256:%s\nsize %d\n", hub.PointerPrefix, sums.SHA256.Encoded(), sums.Size)
	for _, p := range []struct {
		name, fault string
		body        []byte
		checks      string
	}{
		{"one bit flipped", faultBytes, flipped, "sha256 git-blob"},
		{"the last byte missing", faultSize, sample[:len(sample)-1], "size"},
		{"one byte too many", faultSize, append(bytes.Clone(sample), 0), "size"},
		{"an LFS pointer in its place", faultPointer, pointer, "size pointer"},
		{"another file of the same size", faultOther, bytes.Repeat([]byte{'x'}, len(sample)), "sha256 git-blob"},
	} {
		got, err := sumsOf(p.body)
		if err != nil {
			return err
		}
		result := kernels.ControlResult{Name: p.name + " (" + by + ")", Fault: p.fault, Detail: "nothing was found"}
		for _, x := range judgeFile(want, got, p.body[:min(len(p.body), len(hub.PointerPrefix))]) {
			if strings.Contains(p.checks, x.Check) {
				result.Red, result.Detail = true, x.String()
				break
			}
		}
		c.Add(result)
	}
	return nil
}

// plantProtocol plants what a server can say wrong besides the bytes.
func plantProtocol(c *kernels.Controls, pin schemas.Publisher) {
	const from, size = 100, 1000
	c.Add(control("a range with another start", faultRange, hub.CheckRange(fmt.Sprintf("bytes 0-%d/%d", size-1, size), from, size)))
	c.Add(control("a range of another file", faultRange, hub.CheckRange(fmt.Sprintf("bytes %d-%d/%d", from, size, size+1), from, size)))
	c.Add(control("a branch for a revision", faultRevision, hub.CheckPin(pin.Repository, "main")))
	other := strings.Repeat("f", 40)
	if pin.Revision == other {
		other = strings.Repeat("e", 40)
	}
	c.Add(control("an answer for another revision", faultRevision, (&hub.Info{Repository: pin.Repository, Revision: other}).Answers(pin.Repository, pin.Revision)))
}

// control is red when the fault was refused.
func control(name, fault string, refused error) kernels.ControlResult {
	if refused == nil {
		refused = errors.New("it was accepted")
		return kernels.ControlResult{Name: name, Fault: fault, Detail: refused.Error()}
	}
	return kernels.ControlResult{Name: name, Fault: fault, Red: true, Detail: refused.Error()}
}

func sumsOf(body []byte) (digest.Sums, error) {
	h := digest.NewHasher(int64(len(body)))
	if _, err := h.Write(body); err != nil {
		return digest.Sums{}, err
	}
	return h.Sums(), nil
}
