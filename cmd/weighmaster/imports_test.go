package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weighmaster/weighmaster/"

// mayImport says which room may import which others. A room may always import itself.
var mayImport = map[string][]string{
	"cmd":      {"attest", "fixtures", "kernels", "ledger", "policy", "schemas", "stages", "verify"},
	"verify":   {"policy", "schemas", "attest", "ledger", "kernels"},
	"stages":   {"policy", "schemas", "attest", "kernels"},
	"policy":   {"schemas", "attest"},
	"schemas":  {"attest"},
	"attest":   {},
	"ledger":   {},
	"kernels":  {},
	"fixtures": {},
	// The corpus of attacks is made by a program, which nothing but tests imports.
	"fixtures/attacks": {"attest", "kernels", "ledger", "policy", "schemas", "verify"},
}

// adapters are the packages below another room's that bring a large foreign
// library: only cmd imports them, and only they import what is theirs. Else
// every test, race and fuzz build of the room would compile it.
var adapters = map[string]string{module + "stages/azure": "github.com/Azure/"}

// mayImportFixtures are the files of cmd that may: the demo, and init's, whose templates lie there.
var mayImportFixtures = []string{"demo.go", "break.go", "init_tools.go"}

type goPackage struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// refusedImports lists the imports that the rules do not allow.
func refusedImports(list []goPackage) []string {
	var bad []string
	for _, p := range list {
		room := roomOf(p.ImportPath)
		allowed, known := mayImport[room]
		if !known {
			bad = append(bad, p.ImportPath+": a room that no rule names")
			continue
		}
		for _, imp := range p.Imports {
			other := roomOf(imp)
			if other != "" && other != room && !slices.Contains(allowed, other) {
				bad = append(bad, p.ImportPath+" imports "+imp)
			}
			for adapter, foreign := range adapters {
				own := p.ImportPath == adapter || strings.HasPrefix(p.ImportPath, adapter+"/")
				if !own && (strings.HasPrefix(imp, foreign) || imp == adapter && room != "cmd") {
					bad = append(bad, p.ImportPath+" imports "+imp)
				}
			}
		}
	}
	return bad
}

func roomOf(path string) string {
	rest, ok := strings.CutPrefix(path, module)
	if !ok {
		return ""
	}
	room, _, _ := strings.Cut(rest, "/")
	if own := "fixtures/attacks"; rest == own || strings.HasPrefix(rest, own+"/") {
		return own
	}
	return room
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	list := listPackages(t)
	if len(list) < 20 {
		t.Fatalf("go list found %d packages; the test looks at nothing", len(list))
	}
	for _, bad := range refusedImports(list) {
		t.Error(bad)
	}
}

func TestAForbiddenImportIsFound(t *testing.T) {
	const sdk = "github.com/Azure/azure-sdk-for-go/sdk/azcore"
	bad := refusedImports([]goPackage{
		{ImportPath: module + "kernels/gguf", Imports: []string{module + "ledger"}}, {ImportPath: module + "util", Imports: nil},
		{ImportPath: module + "stages", Imports: []string{module + "stages/azure"}}, {ImportPath: module + "stages", Imports: []string{sdk}}, {ImportPath: module + "cmd/weighmaster", Imports: []string{sdk}},
		{ImportPath: module + "stages/azure", Imports: []string{module + "stages", sdk}}, {ImportPath: module + "cmd/weighmaster", Imports: []string{module + "stages/azure"}}, // these may
	})
	if len(bad) != 5 {
		t.Fatalf("got %v, want the import, the unknown room, the adapter and both of its library refused", bad)
	}
}

func TestOnlyTheDemoUsesFixtures(t *testing.T) {
	out, err := exec.Command("grep", "-l", module+"fixtures\"", "-r", ".", "--include=*.go").Output()
	if err != nil {
		t.Fatalf("grep: %v", err)
	}
	files := strings.Fields(string(out))
	if len(files) == 0 {
		t.Fatal("no file imports fixtures; the test looks at nothing")
	}
	for _, f := range files {
		name := strings.TrimPrefix(f, "./")
		if !strings.HasSuffix(name, "_test.go") && !slices.Contains(mayImportFixtures, name) {
			t.Errorf("%s imports fixtures", name)
		}
	}
}
