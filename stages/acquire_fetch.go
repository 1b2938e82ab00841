package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/stages/hub"
)

const (
	parallelFiles = 4
	// stretches bounds how often one file's download is continued after it broke
	// off, and brokenInRow how often without a further byte in between.
	stretches   = 200
	brokenInRow = 5
	// headroom is the part of the needed space that must be free beyond it: 1/20 is five percent.
	headroom = 20
	// progressStep is how many bytes pass between two reports of progress.
	progressStep = 4 << 20
)

// fetcher takes the files of one run.
type fetcher struct {
	src                         publisherSource
	folder, partial, quarantine string
	pause                       time.Duration

	mu       sync.Mutex
	progress Progress
	done     int64 // bytes
	told     int64
	total    int64
	resumed  int64 // bytes not asked for again
	restarts int   // wishes to resume that the server did not honour
	report   kernels.Report
}

// take brings every file into the folder, checked, and reports. A file that is
// wrong is a finding; what could not be fetched is an error.
func (s Acquire) take(ctx context.Context, run *Run, src publisherSource, files []listed) (kernels.Report, error) {
	f := &fetcher{
		src: src, folder: filepath.Join(run.Dir, run.Stage), partial: filepath.Join(run.Dir, "partial"),
		quarantine: filepath.Join(run.Dir, "quarantine"), progress: run.Progress, pause: 200 * time.Millisecond,
		report: AcquireKernel().NewReport(),
	}
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return f.report, err
	}
	for _, l := range files {
		f.total += l.size
	}
	if err := s.checkSpace(run.Dir, f.missing(files)); err != nil {
		return f.report, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFiles)
	for _, l := range files {
		group.Go(func() error { return f.file(groupCtx, l) })
	}
	if err := group.Wait(); err != nil {
		return f.report, err
	}
	f.report.Metric("files", "files", float64(len(files)))
	f.report.Metric("bytes", "bytes", float64(f.total))
	f.report.Metric("bytes_resumed", "bytes", float64(f.resumed))
	f.report.Metric("resumes_refused", "requests", float64(f.restarts))
	if len(f.report.Findings) > 0 {
		return f.report, nil
	}
	return f.report, plantAcquire(&f.report.Controls, run.Publish, f.folder, files)
}

// checkSpace wants room for the bytes that are still missing, and a little more.
func (s Acquire) checkSpace(dir string, need int64) error {
	free := s.free
	if free == nil {
		free = freeBytes
	}
	have, err := free(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if want := uint64(need) + uint64(need)/headroom; have < want {
		return fmt.Errorf("%s: %d bytes are free, %d are needed (five percent of headroom included); make room and run again, nothing was fetched", dir, have, want)
	}
	return nil
}

// missing counts the bytes that no finished or partial file holds yet.
func (f *fetcher) missing(files []listed) int64 {
	var n int64
	for _, l := range files {
		n += l.size
		for _, p := range []string{f.final(l), f.unfinished(l)} {
			if st, err := os.Lstat(p); err == nil && st.Size() <= l.size {
				n -= st.Size()
				break
			}
		}
	}
	return n
}

func (f *fetcher) final(l listed) string { return filepath.Join(f.folder, filepath.FromSlash(l.path)) }

// unfinished carries the wanted hash in its name, so that what another revision left is not continued.
func (f *fetcher) unfinished(l listed) string {
	id := l.gitBlob
	if id == "" {
		id = l.sha256.Encoded()
	}
	return filepath.Join(f.partial, filepath.FromSlash(l.path)+"."+id[:12]+".partial")
}

func (f *fetcher) file(ctx context.Context, l listed) error {
	if exists(f.final(l)) {
		good, err := f.examine(ctx, l, f.final(l), nil)
		if err != nil || good {
			f.pass(l.size)
			return err
		}
	}
	partial := f.unfinished(l)
	if err := os.MkdirAll(filepath.Dir(partial), 0o755); err != nil {
		return err
	}
	err := f.download(ctx, l, partial)
	var length *hub.LengthError
	if errors.As(err, &length) {
		f.find(sizeFinding(l, length.Got, length.Pointer))
		return nil
	}
	if err != nil {
		return err
	}
	good, err := f.examine(ctx, l, partial, f.find)
	if err != nil || !good {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.final(l)), 0o755); err != nil {
		return err
	}
	return publish(partial, f.final(l))
}

// examine hashes a file by the publisher's listing. A wrong one is moved into
// quarantine, named after the hash that it really has.
func (f *fetcher) examine(ctx context.Context, l listed, path string, find func(kernels.Finding)) (good bool, err error) {
	sums, err := digest.File(ctx, path)
	if err != nil {
		return false, err
	}
	head, err := headOf(path)
	if err != nil {
		return false, err
	}
	found := judgeFile(l, sums, head)
	if len(found) == 0 {
		return true, nil
	}
	moved := filepath.Join(f.quarantine, filepath.FromSlash(l.path)+".quarantined-"+sums.SHA256.Encoded()[:12])
	if err := os.MkdirAll(filepath.Dir(moved), 0o755); err != nil {
		return false, err
	}
	if err := os.Rename(path, moved); err != nil {
		return false, err
	}
	if find != nil {
		for _, x := range found {
			x.Hint = "the bytes are kept as " + filepath.Base(moved) + "; " + x.Hint
			find(x)
		}
	}
	return false, nil
}

// download fills the partial file, over as many connections as it takes.
func (f *fetcher) download(ctx context.Context, l listed, partial string) error {
	broken := 0
	for range stretches {
		before := sizeOf(partial)
		err := f.stretch(ctx, l, partial)
		if err == nil || ctx.Err() != nil || !errors.As(err, new(*brokenOff)) {
			return err
		}
		if broken++; sizeOf(partial) > before {
			broken = 1
		}
		if broken >= brokenInRow {
			return err
		}
		select {
		case <-time.After(f.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: the connection broke %d times; run again to continue", l.path, stretches)
}

// brokenOff is a body that ended before its time.
type brokenOff struct {
	what      string
	got, want int64
	err       error
}

func (e *brokenOff) Error() string {
	return fmt.Sprintf("%s: the bytes stopped coming: got %d, want %d: %v; run again to continue", e.what, e.got, e.want, e.err)
}

func (e *brokenOff) Unwrap() error { return e.err }

// stretch makes one request and writes what comes. Bytes are appended only to
// the exact place that the server says they start at.
func (f *fetcher) stretch(ctx context.Context, l listed, partial string) (err error) {
	file, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	from := sizeOf(partial)
	if from > 0 && from == l.size {
		f.mu.Lock()
		f.resumed += from
		f.mu.Unlock()
		return finish(file)
	}
	if from > l.size {
		from = 0
	}
	body, err := f.src.open(ctx, l, from)
	if err != nil {
		return err
	}
	defer body.Close()
	f.mu.Lock()
	f.resumed += body.From
	if body.From != from {
		f.restarts++
	}
	f.mu.Unlock()
	if err := file.Truncate(body.From); err != nil {
		return err
	}
	if _, err := file.Seek(body.From, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(file, io.TeeReader(io.LimitReader(body, l.size-body.From+1), f))
	got := body.From + n
	switch {
	case errors.As(err, new(*os.PathError)): // ours, e.g. no space left
		return err
	case got > l.size:
		return errors.Join(&hub.LengthError{What: l.path, Got: fmt.Sprintf("more than %d", l.size), Want: l.size}, file.Truncate(0))
	case err != nil:
		return &brokenOff{l.path, got, l.size, err}
	case got < l.size:
		return &brokenOff{l.path, got, l.size, io.ErrUnexpectedEOF}
	}
	return finish(file)
}

// finish makes a complete partial file durable and read-only.
func finish(f *os.File) error {
	if err := f.Chmod(0o444); err != nil {
		return err
	}
	return f.Sync()
}

func (f *fetcher) find(x kernels.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Find(x)
}

// Write counts bytes on their way, for the progress.
func (f *fetcher) Write(p []byte) (int, error) {
	f.pass(int64(len(p)))
	return len(p), nil
}

func (f *fetcher) pass(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done += n
	if f.progress != nil && (f.done-f.told >= progressStep || f.done >= f.total) {
		f.told = f.done
		f.progress("fetching", min(f.done, f.total), f.total)
	}
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

func headOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(len(hub.PointerPrefix))))
}
