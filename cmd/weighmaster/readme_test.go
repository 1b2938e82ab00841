package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readmeSession returns the lines of the README's first sh block after a heading.
func readmeSession(t *testing.T, heading string) []string {
	t.Helper()
	body, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(body), heading)
	if !ok {
		t.Fatalf("README.md has no section %s", heading)
	}
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "```")
	return strings.Split(strings.TrimSpace(block), "\n")
}

func TestREADMESessionWorksLineByLine(t *testing.T) {
	fixtures, err := filepath.Abs("../../fixtures")
	if err != nil {
		t.Fatal(err)
	}
	lines := readmeSession(t, "## A session")
	more := readmeSession(t, "## Without any evidence")
	if len(lines) < 8 || len(more) < 5 {
		t.Fatalf("the sessions have %d and %d lines; the test looks at nothing", len(lines), len(more))
	}
	plain, err := plainFolder() // built here, before the folder changes
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(fixtures, "fixtures"); err != nil {
		t.Fatal(err)
	}
	for _, line := range append(lines, more...) {
		args, ok := strings.CutPrefix(line, "go run ./cmd/weighmaster ")
		if !ok {
			t.Fatalf("README line %q: want a command that starts with go run ./cmd/weighmaster", line)
		}
		code, said := runCommand(t, filepath.Join(plain, "weighmaster"), strings.Fields(args)...)
		if code != exitHolds {
			t.Fatalf("%s\nexit code %d:\n%s", line, code, said)
		}
		if strings.TrimSpace(said) == "" {
			t.Errorf("%s printed nothing", line)
		}
	}
}

func TestREADMENamesTheTwoCommands(t *testing.T) {
	body, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go run ./cmd/weighmaster demo\n", "go test ./...\n"} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("README.md lacks the command %q", want)
		}
	}
}

func TestDemoRefusesAFolderThatIsNotItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "precious.txt")
	if err := os.WriteFile(precious, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, said := runInside(context.Background(), []string{"demo", "--dir", dir})
	if code != exitUndecided || !strings.Contains(said, "is not a demo's folder") {
		t.Fatalf("exit code %d, said %q", code, said)
	}
	if body, err := os.ReadFile(precious); err != nil || string(body) != "mine" {
		t.Fatalf("the folder was touched: %q, %v", body, err)
	}
}
