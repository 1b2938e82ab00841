package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

// scriptCommands are the commands of the scripts in testdata/script.
func scriptCommands(into map[string]func(*testscript.TestScript, bool, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	into["hub"], into["fails"], into["json"], into["jsonlines"], into["mode"], into["evaluation"] = cmdHub, cmdFails, cmdJSON, cmdJSONLines, cmdMode, cmdEvaluation
	into["claimof"], into["proven"] = cmdClaimOf, cmdProven
	into["machines"], into["unbelieve"], into["expire"], into["package"], into["private"] = cmdMachines, cmdUnbelieve, cmdExpire, cmdPackage, cmdPrivate
	into["entry"], into["trust"] = cmdEntry, cmdTrust
	into["authority"], into["identity"], into["rotate"], into["addroot"] = cmdAuthority, cmdIdentity, cmdRotate, cmdAddRoot
	into["witness"], into["fork"], into["cosigned"] = cmdWitness, cmdFork, cmdCosigned
	into["azure"] = cmdAzure
	return into
}

// cmdHub: hub [wrong PATH]. Serves the embedded snapshot on loopback until the
// script ends and points HF_ENDPOINT at it. With wrong, one byte in the middle of that file is another.
func cmdHub(ts *testscript.TestScript, _ bool, args []string) {
	publisher, err := fixtures.ModelPublisher()
	ts.Check(err)
	listing, err := json.Marshal(publisher)
	ts.Check(err)
	snapshot, err := hubtest.FromPublisher(listing, fixtures.Snapshot())
	ts.Check(err)
	var faults []hubtest.Fault
	if len(args) == 2 && args[0] == "wrong" {
		for _, f := range snapshot.Files {
			if f.Path == args[1] {
				faults = append(faults, hubtest.Bytes(f.Path, f.Data, func(data []byte, _ int) []byte {
					data[len(data)/2] ^= 1
					return data
				}))
			}
		}
	}
	if len(faults)*2 != len(args) {
		ts.Fatalf("hub: got %q, want nothing, or wrong and a file of the snapshot", args)
	}
	server, err := hubtest.Serve(hubtest.Handler(snapshot, faults...))
	ts.Check(err)
	ts.Defer(func() { _ = server.Close() })
	ts.Setenv("HF_ENDPOINT", server.URL)
	ts.Setenv("REPOSITORY", publisher.Repository)
	ts.Setenv("REVISION", publisher.Revision)
}

// cmdEvaluation: evaluation DIR gives a project the example model's fixtures and texts.
func cmdEvaluation(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(writeEvaluation(ts.MkAbs(args[0])))
}

// cmdFails: fails CODE REASON COMMAND... The command ends with the code, says
// the reason (a regular expression) and never shows a stack.
func cmdFails(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	reason, err := regexp.Compile(args[1])
	ts.Check(err)
	if code == 0 || reason.MatchString("") {
		ts.Fatalf("a failure has a code and a reason")
	}
	err = ts.Exec(args[2], args[3:]...)
	said := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != code || !reason.MatchString(said) || strings.Contains(said, "goroutine ") {
		ts.Fatalf("exit code %d, want %d and %q without a stack; it said:\n%s", got, code, reason, said)
	}
}

// cmdClaimOf: claimof STAGE FILE sets CLAIM to the claim of a stage about a
// file, as policy explain prints it.
func cmdClaimOf(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("weighmaster", "--project", "p", "policy", "explain", args[1], "--json"))
	var answer struct {
		Reasons []struct{ What, Claim string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &answer))
	for _, r := range answer.Reasons {
		if strings.HasPrefix(r.What, args[0]+" ") && r.Claim != "" {
			ts.Setenv("CLAIM", r.Claim)
			return
		}
	}
	ts.Fatalf("policy explain names no claim of stage %s", args[0])
}

// cmdProven: proven PROJECT INDEX FILE. The file proves that entry of the
// project's log, and does not prove another.
func cmdProven(ts *testscript.TestScript, _ bool, args []string) {
	index, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ctx := context.Background()
	p, err := (&app{project: ts.MkAbs(args[0])}).open(ctx, false)
	ts.Check(err)
	defer p.close()
	for other := range int64(2) {
		entry, err := p.log.Entry(ctx, ledger.LeafIndex(index+other))
		ts.Check(err)
		_, err = ledger.VerifyProof([]byte(ts.ReadFile(args[2])), entry.Leaf, p.logKey)
		if (err == nil) != (other == 0) {
			ts.Fatalf("the proof of entry %d against entry %d: %v", index, index+other, err)
		}
	}
}

// cmdJSON: json FILE [LIST FIELD...]. The file is one JSON value without
// duplicate keys; with LIST, that member is a list with at least one element,
// each of which has every field, not empty.
func cmdJSON(ts *testscript.TestScript, _ bool, args []string) {
	value, err := strictJSON([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	if len(args) == 1 {
		return
	}
	member := value
	if args[1] != "." {
		object, _ := value.(map[string]any)
		member = object[args[1]]
	}
	list, _ := member.([]any)
	if len(list) == 0 {
		ts.Fatalf("%s: %s is no list with elements", args[0], args[1])
	}
	for i, e := range list {
		object, _ := e.(map[string]any)
		for _, field := range args[2:] {
			if v, ok := object[field]; !ok || v == "" || v == nil {
				ts.Fatalf("%s: %s[%d] has no %s: %v", args[0], args[1], i, field, e)
			}
		}
	}
}

// cmdJSONLines: jsonlines FILE [FIELD...]. Every line is a JSON object with the fields; at least one line.
func cmdJSONLines(ts *testscript.TestScript, _ bool, args []string) {
	lines := bufio.NewScanner(strings.NewReader(ts.ReadFile(args[0])))
	n := 0
	for ; lines.Scan(); n++ {
		value, err := strictJSON(lines.Bytes())
		if err != nil {
			ts.Fatalf("%s line %d: %v: %s", args[0], n+1, err, lines.Text())
		}
		object, _ := value.(map[string]any)
		for _, field := range args[1:] {
			if _, ok := object[field]; !ok {
				ts.Fatalf("%s line %d has no %s: %s", args[0], n+1, field, lines.Text())
			}
		}
	}
	if n == 0 {
		ts.Fatalf("%s has no lines", args[0])
	}
}

// cmdMode: mode FILE OCTAL. Windows has no such bits.
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[1], 8, 32)
	ts.Check(err)
	info, err := os.Stat(onlyFile(ts, args[0]))
	ts.Check(err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != os.FileMode(want) {
		ts.Fatalf("%s: got mode %o, want %o", args[0], info.Mode().Perm(), want)
	}
}

// strictJSON reads one value and refuses duplicate keys and anything after it.
func strictJSON(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := strictValue(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("byte %d: more after the value", dec.InputOffset())
	}
	return v, nil
}

func strictValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := strictValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("byte %d: key %q stands twice", dec.InputOffset(), name)
			}
			if object[name], err = strictValue(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, err
	}
	return token, nil
}

func TestStrictJSONRefuses(t *testing.T) {
	if _, err := strictJSON([]byte(`{"a":[1,{"b":null}]}`)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"a":1,"a":2}`: "stands twice", `[{"a":{"b":1,"b":1}}]`: "stands twice", `{} {}`: "more after the value", `{"a":`: "EOF", `{"a":1}]`: "more after the value", "": "EOF",
	} {
		if v, err := strictJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", text, v, err, want)
		}
	}
}
