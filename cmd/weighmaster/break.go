package main

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weighmaster/weighmaster/fixtures"
)

// breakage is one fault and the command that must refuse it.
type breakage struct {
	what   string
	break_ func(dir string, f demoFiles) error
	args   func(dir string, f demoFiles) []string
	code   int
	says   string // part of the reason
}

// demoFiles are the names that breakages need, relative to the project.
type demoFiles struct{ product, shard, snapshot string }

func breakages() []breakage {
	verify := func(dir string, f demoFiles) []string {
		return []string{"verify", filepath.Join(dir, f.product), "--trust", filepath.Join(dir, trustFile)}
	}
	return []breakage{
		{"one byte of a delivered weight", func(dir string, f demoFiles) error { return flip(filepath.Join(dir, f.product), -100) }, verify, exitFalse, "the file that the evidence is about"},
		{"the same byte, looked for by comparing with the source", func(dir string, f demoFiles) error { return flip(filepath.Join(dir, f.product), -100) },
			func(dir string, f demoFiles) []string {
				return []string{"compare", filepath.Join(dir, f.snapshot), filepath.Join(dir, f.product)}
			}, exitFalse, "row"},
		{"one byte of a source shard", func(dir string, f demoFiles) error { return flip(filepath.Join(dir, f.shard), -100) },
			func(dir string, f demoFiles) []string { return []string{"--project", dir, "accept"} }, exitUndecided, "is not complete"},
		{"a row of the ledger", breakLedger, func(dir string, _ demoFiles) []string { return []string{"--project", dir, "log", "verify"} }, exitContradicts, "contradicts itself"},
		{"a kernel report in the evidence package", breakReport, verify, exitFalse, "object sha256"},
		{"a number of the policy, after the decision", func(dir string, f demoFiles) error {
			return rewritePackage(filepath.Join(dir, f.product)+packageSuffix, func(name string, body []byte) []byte {
				if name == policyFile {
					return bytes.Replace(body, []byte("value: 0.003"), []byte("value: 0.300"), 1)
				}
				return body
			})
		}, verify, exitFalse, "decided under policy"},
	}
}

// breakDemo breaks a copy of the demo's project in one way after another and
// shows each refusal. A fault that is not refused, or for another reason, fails the demo.
func (a *app) breakDemo(ctx context.Context, dir string) error {
	files, err := findDemoFiles(dir)
	if err != nil {
		return err
	}
	missed := 0
	list := breakages()
	for i, b := range list {
		refused, err := a.breakOnce(ctx, dir, files, i+1, b)
		if err != nil {
			return err
		}
		if !refused {
			missed++
		}
	}
	a.printf("\n%d of %d faults refused\n", len(list)-missed, len(list))
	if missed > 0 {
		return &exitError{code: exitFalse}
	}
	return nil
}

func (a *app) breakOnce(ctx context.Context, dir string, files demoFiles, n int, b breakage) (bool, error) {
	temp, err := os.MkdirTemp("", "weighmaster-break-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temp)
	copied := filepath.Join(temp, filepath.Base(dir))
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return false, err
	}
	if err := b.break_(copied, files); err != nil {
		return false, fmt.Errorf("break %s: %w", b.what, err)
	}
	args := b.args(copied, files)
	code, said := runInside(ctx, args)
	refused := code == b.code && strings.Contains(said, b.says)
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = strings.Replace(arg, copied, dir, 1)
	}
	verdict := "refused"
	if !refused {
		verdict = fmt.Sprintf("NOT refused as it must be: exit code %d wanted, and %q", b.code, b.says)
	}
	a.printf("\n%d. broken in a copy: %s\n   weighmaster %s\n   %s, exit code %d\n", n, b.what, strings.Join(shown, " "), verdict, code)
	for _, line := range reasonLines(said) {
		a.printf("     %s\n", strings.ReplaceAll(line, copied, dir))
	}
	return refused, nil
}

// runInside runs a command line in this process and returns its exit code and all that it printed.
func runInside(ctx context.Context, args []string) (int, string) {
	var out bytes.Buffer
	inner := &app{in: strings.NewReader(""), out: &out, err: &out}
	root := inner.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	inner.sayError(err)
	return exitCode(err), out.String()
}

// reasonLines picks the first refusal out of an answer: at most five lines.
func reasonLines(said string) []string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "FAIL") || strings.HasPrefix(l, "???") || strings.HasPrefix(l, "weighmaster:") {
			end := i + 1
			for end < len(lines) && strings.HasPrefix(lines[end], "   ") && end < i+5 {
				end++
			}
			return lines[i:end]
		}
	}
	return lines[:min(5, len(lines))]
}

func findDemoFiles(dir string) (demoFiles, error) {
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		return demoFiles{}, err
	}
	f := demoFiles{product: filepath.Join(deliveredDir, filepath.Base(publisher.Repository)+"-Q8_0.gguf")}
	shards, err := filepath.Glob(filepath.Join(dir, workDir, "source", "*", "*.safetensors"))
	if err != nil || len(shards) == 0 {
		return f, fmt.Errorf("%s has no acquired shard to break: %v", dir, err)
	}
	if f.shard, err = filepath.Rel(dir, shards[0]); err != nil {
		return f, err
	}
	f.snapshot = filepath.Dir(f.shard)
	return f, nil
}

// flip inverts one bit of a read-only file; a negative offset counts from the end.
func flip(path string, offset int64) error {
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if offset < 0 {
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		offset += end
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b[:], offset)
	return err
}

// breakReport changes one verdict inside a report of the evidence package.
func breakReport(dir string, f demoFiles) error {
	done := false
	return rewritePackage(filepath.Join(dir, f.product)+packageSuffix, func(name string, body []byte) []byte {
		if done || !strings.HasPrefix(name, "objects/") || !bytes.Contains(body, []byte(`"kernel":"divergence"`)) {
			return body
		}
		done = true
		return bytes.Replace(body, []byte(`"verdict":"passed"`), []byte(`"verdict":"failed"`), 1)
	})
}

// rewritePackage rewrites a ZIP archive member by member.
func rewritePackage(path string, change func(name string, body []byte) []byte) error {
	old, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer old.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, member := range old.File {
		r, err := member.Open()
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f, err := w.Create(member.Name)
		if err != nil {
			return err
		}
		if _, err := f.Write(change(member.Name, body)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// breakLedger edits one row as somebody with access to the database could.
func breakLedger(dir string, _ demoFiles) error {
	db, err := sql.Open("sqlite", filepath.Join(dir, ledgerFile))
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range []string{
		`DROP TRIGGER entries_no_UPDATE`,
		`UPDATE entries SET leaf = CAST(replace(CAST(leaf AS TEXT), '"appended":"2', '"appended":"3') AS BLOB) WHERE idx = 1`,
	} {
		if _, err := db.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}
