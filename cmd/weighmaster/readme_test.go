package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readmeSession returns the lines of the README's first sh block after "## A session".
func readmeSession(t *testing.T) []string {
	t.Helper()
	body, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(body), "## A session")
	if !ok {
		t.Fatal("README.md has no section A session")
	}
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "```")
	return strings.Split(strings.TrimSpace(block), "\n")
}

func TestREADMESessionWorksLineByLine(t *testing.T) {
	lines := readmeSession(t)
	if len(lines) < 8 {
		t.Fatalf("the session has %d lines; the test looks at nothing", len(lines))
	}
	t.Chdir(t.TempDir())
	for _, line := range lines {
		args, ok := strings.CutPrefix(line, "go run ./cmd/weighmaster ")
		if !ok {
			t.Fatalf("README line %q: want a command that starts with go run ./cmd/weighmaster", line)
		}
		code, said := runSelf(t, strings.Fields(args)...)
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
