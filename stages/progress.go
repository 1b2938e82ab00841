package stages

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

const (
	progressSuffix   = ".json"
	maxProgressFile  = 1 << 20                // bytes
	progressThrottle = 500 * time.Millisecond // between two writings that a stage's own words cause
)

// progressFile is a running stage's word on itself, work/progress/<stage>.json.
// The file is there while the stage runs; one that stays tells of a run that
// ended without a record. It is no evidence, and that it cannot be written
// fails nothing.
type progressFile struct {
	path  string
	now   func() time.Time
	fault func(error) // told once

	mu      sync.Mutex
	doc     schemas.Progress
	began   time.Time // with its monotonic reading
	written time.Time
	phase   time.Time // when the present phase began
	at      int64     // bytes done when it began
	broken  bool
	ended   bool
}

func progressPath(project, stage string) string {
	return filepath.Join(project, "work", progressName, stage+progressSuffix)
}

// newProgress writes the first word, durably: what it tells must outlive a power cut.
func newProgress(project string, rec record, interval time.Duration, now func() time.Time, fault func(error)) *progressFile {
	p := &progressFile{path: progressPath(project, rec.decl.Name), now: now, fault: fault, began: time.Now(), phase: time.Now()}
	p.doc = schemas.Progress{
		Schema: schemas.ProgressURI, Stage: rec.decl.Name, Uses: rec.decl.Uses, Invocation: rec.invocation, Declaration: declarationDigest(rec.external), Inputs: inputDigests(rec.inputs),
		Process: machine.Self(), Tools: []schemas.ToolProcess{}, Started: rec.start.UTC(), IntervalSeconds: interval.Seconds(),
	}
	err := os.MkdirAll(filepath.Dir(p.path), 0o755)
	if err == nil {
		err = syncDir(filepath.Dir(filepath.Dir(p.path)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.complain(err)
		return p
	}
	p.write(true)
	return p
}

// say takes a stage's own word of progress.
func (p *progressFile) say(message string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if message != p.doc.Message || done < p.doc.Done {
		p.phase, p.at = time.Now(), done
	}
	p.doc.Message, p.doc.Done, p.doc.Total, p.doc.Rate = message, max(done, 0), max(total, 0), 0
	if span := time.Since(p.phase).Seconds(); span > 0.1 {
		p.doc.Rate = float64(done-p.at) / span
	}
	if time.Since(p.written) >= progressThrottle {
		p.write(false)
	}
}

// sampled takes a sample of the machine, if there is one, and what the stage has
// started, and writes whatever was last said.
func (p *progressFile) sampled(s *schemas.Sample, tools []schemas.ToolProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doc.Tools = tools; s != nil {
		p.doc.Last = s
	}
	p.write(false)
}

// write replaces the file in one step. The caller holds the lock.
func (p *progressFile) write(durable bool) {
	if p.ended {
		return
	}
	p.written = time.Now()
	p.doc.Updated, p.doc.UpdatedUptime, p.doc.ElapsedSeconds = p.now().UTC(), machine.Uptime(), time.Since(p.began).Seconds()
	body, err := json.Marshal(p.doc)
	if err == nil {
		err = replaceFile(p.path, append(body, '\n'), durable)
	}
	if err != nil {
		p.complain(err)
	}
}

func (p *progressFile) complain(err error) {
	if !p.broken {
		p.broken = true
		p.fault(fmt.Errorf("the word of progress cannot be written, the stage goes on without: %w", err))
	}
}

// end removes the file: the stage's end is in the ledger.
func (p *progressFile) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = os.Remove(p.path) // one that stays names an invocation that the ledger has
}

// replaceFile writes a file beside the old one and takes its name.
func replaceFile(path string, body []byte, durable bool) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil && durable {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // what is half written helps nobody
		return err
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// Unfinished is the word of a stage that has no end yet.
type Unfinished struct {
	Path string
	schemas.Progress
}

// ReadProgress reads every word of progress of a project, by stage name. Those
// that cannot be read are told as errors; the others stand.
func ReadProgress(project string) ([]Unfinished, []error) {
	paths, err := filepath.Glob(filepath.Join(globEscape(project), "work", progressName, "*"+progressSuffix))
	if err != nil {
		return nil, []error{err}
	}
	var list []Unfinished
	var faults []error
	for _, path := range paths {
		u := Unfinished{Path: path}
		err := readProgress(path, &u.Progress)
		if os.IsNotExist(err) {
			continue // it ended between the two
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w; it tells nothing and can be removed", path, err))
			continue
		}
		list = append(list, u)
	}
	return list, faults
}

func readProgress(path string, doc *schemas.Progress) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxProgressFile))
	if err != nil {
		return err
	}
	if err := schemas.DecodeJSON(schemas.ProgressURI, body, doc); err != nil {
		return err
	}
	if filepath.Base(path) != doc.Stage+progressSuffix {
		return fmt.Errorf("it is of stage %q, which its name is not", doc.Stage)
	}
	return nil
}

// globEscape keeps filepath.Glob from reading a folder's name as a pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// Standing is what can be said of an unfinished stage.
type Standing string

const (
	Running     Standing = "running"     // the very process that wrote runs, and wrote lately
	Stale       Standing = "stale"       // the process is there and has not written for long
	Halted      Standing = "stopped"     // the process was stopped by a signal and can go on
	Interrupted Standing = "interrupted" // the process is gone, or its boot is over
	Unknown     Standing = "unknown"     // it is another container's
)

// staleAfter is how many intervals may pass without a word.
const staleAfter = 3

// Stand tells how an unfinished stage stands, and why. It is never called
// running because a pid exists: boot and start must be those that were written,
// and the word must be fresh, by a clock that nobody sets where there is one.
func (u Unfinished) Stand(now time.Time) (Standing, string) {
	return u.stand(now, machine.Uptime())
}

func (u Unfinished) stand(now time.Time, uptime float64) (Standing, string) {
	why := became(u.Process)
	switch machine.Look(u.Process) {
	case machine.Gone, machine.Another, machine.OtherBoot:
		return Interrupted, why
	case machine.Elsewhere:
		return Unknown, why
	case machine.Stopped:
		return Halted, why
	}
	age := now.Sub(u.Updated).Seconds()
	if u.UpdatedUptime > 0 && uptime > 0 {
		age = uptime - u.UpdatedUptime
	}
	limit := staleAfter * u.IntervalSeconds
	if age > limit || age < -limit {
		return Stale, fmt.Sprintf("process %d is there and has not written for %s; it writes every %s", u.Process.PID, seconds(age), seconds(u.IntervalSeconds))
	}
	return Running, why
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second / 10)
}

// Remaining estimates the time that a phase still takes; zero when it cannot be told.
func Remaining(p schemas.Progress) time.Duration {
	if p.Rate <= 0 || p.Total <= p.Done {
		return 0
	}
	return seconds(min(float64(p.Total-p.Done)/p.Rate, 1e8))
}

func declarationDigest(external schemas.ExternalParameters) string {
	body, err := canonical(external)
	if err != nil {
		return godigest.FromString("").Encoded() // what has no canonical form is never found again
	}
	return godigest.FromBytes(body).Encoded()
}

func inputDigests(inputs map[string]Artifact) map[string]string {
	digests := map[string]string{}
	for role, a := range inputs {
		digests[role] = a.Digest.String()
	}
	return digests
}
