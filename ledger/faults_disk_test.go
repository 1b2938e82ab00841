package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// world is a project's ledger on a disk: database, checkpoints and evidence.
type world struct {
	t     *testing.T
	dir   string
	store *sqlite.Store
	log   *ledger.Log
	files *objects.Store
}

// create makes an empty ledger in a folder.
func create(t *testing.T, dir string) (*world, error) {
	w := &world{t: t, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "evidence"), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.store, err = sqlite.Create(t.Context(), filepath.Join(dir, "ledger.db")); err != nil {
		return nil, err
	}
	c, err := checkpoints.Create(filepath.Join(dir, "checkpoints"))
	if err == nil {
		s := &site{checkpoints: c}
		w.log, err = ledger.Create(t.Context(), w.store, s.options(t))
	}
	if err == nil {
		w.files, err = objects.Open(filepath.Join(dir, "evidence"))
	}
	if err != nil {
		w.store.Close()
		return nil, err
	}
	return w, nil
}

// open opens the ledger in a folder.
func open(t *testing.T, dir string) (*world, error) {
	w := &world{t: t, dir: dir}
	var err error
	if w.store, err = sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db")); err != nil {
		return nil, err
	}
	c, err := checkpoints.Open(filepath.Join(dir, "checkpoints"))
	if err == nil {
		s := &site{checkpoints: c}
		w.log, err = ledger.Open(t.Context(), w.store, s.options(t))
	}
	if err == nil {
		w.files, err = objects.Open(filepath.Join(dir, "evidence"))
	}
	if err != nil {
		w.store.Close()
		return nil, err
	}
	return w, nil
}

// deed is one thing that the session does; batch and report are what it makes.
type deed struct {
	batch  [][]byte
	report string
	reopen bool
}

// deeds append one by one, in a batch, a large bundle and evidence, and close
// the database in between, which moves its write-ahead log into the file.
func deeds() []deed {
	large := storetest.Bundle(strings.Repeat("large ", 5000), []string{"large"}, []string{"file 5"})
	return []deed{
		{batch: [][]byte{step(0)}},
		{report: "report 0"},
		{batch: [][]byte{step(1), step(2), step(3)}},
		{batch: [][]byte{large}},
		{reopen: true},
		{batch: [][]byte{step(4)}},
		{report: "report 0"},
		{report: strings.Repeat("report 1 ", 1000)},
		{batch: [][]byte{step(5), step(0)}},
		{reopen: true},
	}
}

// do carries out one deed.
func (w *world) do(d deed) error {
	ctx := context.Background()
	if d.reopen {
		if w.store != nil {
			w.store.Close() // which may fail; the next one who opens repairs
			w.store = nil
		}
		again, err := open(w.t, w.dir)
		if err == nil {
			*w = *again
		}
		return err
	}
	if d.report != "" {
		_, err := w.files.Put(ctx, "text/plain", true, strings.NewReader(d.report))
		return err
	}
	_, err := w.log.AppendAll(ctx, d.batch)
	return err
}

// promised is what was acknowledged.
type promised struct {
	bundles [][]byte
	reports []string
}

func (p *promised) add(d deed) {
	p.bundles = append(p.bundles, d.batch...)
	if d.report != "" {
		p.reports = append(p.reports, d.report)
	}
}

// inspect opens what lies in a folder and wants everything that was promised,
// no half of a deed, and a tree and evidence that verify. Then it appends
// everything again, as after any error, and wants each thing to be there once.
func inspect(t *testing.T, dir string, p promised) error {
	w, err := open(t, dir)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { w.store.Close() }()
	if err := w.whole(p); err != nil {
		return err
	}
	var all promised
	for _, d := range deeds() {
		all.add(d)
	}
	for _, d := range []deed{{batch: all.bundles}, {report: all.reports[0]}, {report: all.reports[2]}} {
		if err := w.do(d); err != nil {
			return fmt.Errorf("append again: %w", err)
		}
	}
	if err := w.whole(all); err != nil {
		return fmt.Errorf("after everything was appended again: %w", err)
	}
	return nil
}

func (w *world) whole(p promised) error {
	ctx := context.Background()
	v, err := w.log.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if !v.OK() {
		return fmt.Errorf("verify: %v, %v", v.Findings, v.Contradiction)
	}
	var there [][]byte
	for e, err := range w.log.Entries(ctx) {
		if err != nil {
			return err
		}
		there = append(there, e.Bundle)
	}
	if err := inOrder(there, p.bundles); err != nil {
		return err
	}
	var wanted []godigest.Digest
	for _, r := range p.reports {
		wanted = append(wanted, godigest.FromString(r))
		if text, _, err := w.files.Get(ctx, godigest.FromString(r)); err != nil || string(text) != r {
			return fmt.Errorf("acknowledged evidence %.20q: %w", r, err)
		}
	}
	bad, err := w.files.Check(ctx, wanted...)
	if err == nil && len(bad) > 0 {
		err = bad[0]
	}
	return err
}

var errMissing = errors.New("an acknowledged append is missing")

// inOrder wants the acknowledged bundles, and of the others whole deeds only,
// each once and in the order of the deeds.
func inOrder(there, acknowledged [][]byte) error {
	var want [][]byte
	for _, d := range deeds() {
		fresh := slices.DeleteFunc(slices.Clone(d.batch), func(b []byte) bool { return has(want, b) })
		missing := 0
		for _, b := range fresh {
			if !has(there, b) {
				missing++
				if has(acknowledged, b) {
					return fmt.Errorf("%w: %.60q", errMissing, b)
				}
			}
		}
		if missing != 0 && missing != len(fresh) {
			return fmt.Errorf("a batch of %d is there with %d missing", len(fresh), missing)
		}
		if missing == 0 {
			want = append(want, fresh...)
		}
	}
	if !slices.EqualFunc(there, want, bytes.Equal) {
		return fmt.Errorf("%d entries, want %d in the order of their appends", len(there), len(want))
	}
	return nil
}

func has(list [][]byte, b []byte) bool {
	return slices.ContainsFunc(list, func(x []byte) bool { return bytes.Equal(x, b) })
}

// TestDiskFaults lets every call that a session makes on database, checkpoints
// and evidence fail once in every way that fits it. The session does what the
// contract says: it tries again. Afterwards, and after a loss of power at the
// end, everything that was acknowledged must be there.
func TestDiskFaults(t *testing.T) {
	count := map[faulttest.Kind]int{}
	detected := 0
	for _, kind := range faulttest.Kinds {
		for n := 1; ; n += stride {
			fired, told := sessionWithFault(t, kind, n)
			if !fired {
				break
			}
			count[kind]++
			if told {
				detected++
			}
		}
	}
	total := 0
	var parts []string
	for _, kind := range faulttest.Kinds {
		if count[kind] < max(1, 20/stride) {
			t.Errorf("%s: %d faults fired, want at least %d", kind, count[kind], max(1, 20/stride))
		}
		total += count[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, count[kind]))
	}
	fmt.Printf("ledger on a failing disk: %d faults injected: %d survived, of them %d silent losses by telling what is lost (%s)\n", total, total, detected, strings.Join(parts, ", "))
}

// sessionWithFault runs the deeds with one fault. told says that the fault,
// of a disk that lies, was not mended but found.
func sessionWithFault(t *testing.T, kind faulttest.Kind, n int) (fired, told bool) {
	t.Helper()
	dir := faulttest.TempDir(t)
	defer os.RemoveAll(dir)
	w, err := create(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Close()
	m := faulttest.New(t, dir)
	if w, err = open(t, dir); err != nil {
		t.Fatal(err)
	}
	m.Inject(kind, n)
	var p promised
	var lost error
	for i, d := range deeds() {
		err := w.do(d)
		if err != nil {
			if m.Fired() == "" {
				t.Fatalf("%s %d, deed %d: without a fault: %v", kind, n, i, err)
			}
			if err = w.do(d); err != nil && kind != faulttest.SilentLoss {
				t.Errorf("%s %d (%s), deed %d again: %v", kind, n, m.Fired(), i, err)
			}
		}
		if err != nil {
			lost = err
			break
		}
		p.add(d)
	}
	if w.store != nil {
		w.store.Close()
	}
	fault := m.Fired()
	m.Inject("", 0)
	image := m.Image(t, m.Point(), faulttest.Power, 1)
	defer os.RemoveAll(image)
	for _, find := range []struct{ loss, dir string }{{"a look", dir}, {string(faulttest.Power), image}} {
		if err := inspect(t, find.dir, p); err != nil {
			lost = errors.Join(lost, err)
			if kind != faulttest.SilentLoss {
				t.Errorf("%s %d (%s), then %s: %v", kind, n, fault, find.loss, err)
			} else if errors.Is(err, errMissing) {
				t.Errorf("%s %d (%s), then %s: nobody noticed: %v", kind, n, fault, find.loss, err)
			}
		}
	}
	return fault != "", lost != nil
}

// TestDiskCrashes stops the disk after every single change of a session, as a
// killed process leaves it and as a loss of power does, in which what was not
// synced is lost as a whole, in parts, or but for the names.
func TestDiskCrashes(t *testing.T) {
	dir := faulttest.TempDir(t)
	w, err := create(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Close()
	m := faulttest.New(t, dir)
	if w, err = open(t, dir); err != nil {
		t.Fatal(err)
	}
	start := m.Point()
	type at struct {
		point int
		promised
	}
	states := []at{{}}
	var p promised
	for i, d := range deeds() {
		if err := w.do(d); err != nil {
			t.Fatalf("deed %d: %v", i, err)
		}
		p.add(d)
		states = append(states, at{m.Point(), promised{slices.Clone(p.bundles), slices.Clone(p.reports)}})
	}
	w.store.Close()
	count := map[faulttest.Loss]int{}
	total := 0
	for point := start; point <= m.Point(); point += stride {
		kept := promised{}
		for _, s := range states {
			if s.point <= point {
				kept = s.promised
			}
		}
		for _, loss := range faulttest.Losses {
			image := m.Image(t, point, loss, uint64(point))
			if err := inspect(t, image, kept); err != nil {
				t.Errorf("%s after %d changes: %v", loss, point, err)
			}
			os.RemoveAll(image)
			count[loss]++
			total++
		}
	}
	if total < 400/stride {
		t.Errorf("%d crashes, want at least %d", total, 400/stride)
	}
	var parts []string
	for _, loss := range faulttest.Losses {
		parts = append(parts, fmt.Sprintf("%s %d", loss, count[loss]))
	}
	fmt.Printf("ledger on a disk that crashes after each of %d changes: %d faults injected: %d survived (%s)\n", m.Point()-start, total, total, strings.Join(parts, ", "))
}
