package bom_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/fixtures/bomschemas"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/bom"
)

// signed is a world's claims and objects, after a change.
func signed(t *testing.T, change func(*policytest.World)) *policytest.Signed {
	t.Helper()
	w := policytest.New(t, fixtures.Policy)
	if change != nil {
		change(w)
	}
	return w.Sign(t)
}

func readSigned(t *testing.T, s *policytest.Signed) (bom.Chain, error) {
	t.Helper()
	return bom.Read(policytest.New(t, fixtures.Policy).Policy, policy.Evidence{Claims: s.Claims, Objects: s.Objects}, policytest.Artifact.Digest)
}

func read(t *testing.T) bom.Chain {
	t.Helper()
	c, err := readSigned(t, signed(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	c.Architecture = "llama"
	return c
}

func TestReadFollowsTheChain(t *testing.T) {
	c := read(t)
	if c.Artifact.Name != policytest.Artifact.Name || c.Repository != policytest.Repository || c.Revision != policytest.Revision {
		t.Errorf("got %+v", c)
	}
	var names []string
	for _, m := range c.Ancestors {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{policytest.BF16.Name, "snapshot"}) {
		t.Errorf("ancestors: %v", names)
	}
	if len(c.Metrics) == 0 || len(c.Limits) != 0 {
		t.Errorf("got %d metrics, limits %v", len(c.Metrics), c.Limits)
	}
	for _, m := range c.Metrics {
		if m.Unit == "" {
			t.Errorf("%s has no unit", m.Name)
		}
	}
}

// TestReadRefuses: no bill of materials of a chain that does not hold.
func TestReadRefuses(t *testing.T) {
	without := func(s *policytest.Signed, step string) {
		gone := s.Claim(t, step).PAE()
		s.Claims = slices.DeleteFunc(s.Claims, func(c attest.Claim) bool { return c.PAE() == gone })
	}
	objectOf := func(s *policytest.Signed, step string) godigest.Digest {
		runs, _ := policy.Runs([]attest.Claim{s.Claim(t, step)})
		return runs[0].Evidence()[0]
	}
	for name, c := range map[string]struct {
		world func(*policytest.World)
		after func(*policytest.Signed)
		words string
	}{
		"no acquire claim":    {nil, func(s *policytest.Signed) { without(s, "source") }, "no claim says what made it"},
		"no conversion claim": {nil, func(s *policytest.Signed) { without(s, "bf16") }, "no claim says what made it"},
		"no claims":           {nil, func(s *policytest.Signed) { s.Claims = nil }, "no claim says what made it"},
		"a result is missing": {nil, func(s *policytest.Signed) { delete(s.Objects, objectOf(s, "q8")) }, "is not in the evidence"},
		"a result was edited": {nil, func(s *policytest.Signed) { s.Objects[objectOf(s, "q8")] = []byte("{}") }, "hashes to"},
		"a stage failed": {func(w *policytest.World) {
			w.Step(t, "q8").Result.Verdict = schemas.Failed
			w.Step(t, "q8").Result.Failure = "x"
		}, nil, "it ended failed"},
		"a stage was withdrawn": {func(w *policytest.World) {
			w.Add(t, "", policytest.Withdrawal("back", "q8", "wrong matrix", policytest.Producer))
		}, nil, "was withdrawn: wrong matrix"},
		"two makers": {func(w *policytest.World) {
			other := *w.Step(t, "q8")
			other.Name, other.Inputs = "q8-again", []policy.NamedDigest{policytest.In("model", policytest.Snapshot)}
			w.Add(t, "q8", &other)
		}, nil, "make it of different things"},
	} {
		t.Run(name, func(t *testing.T) {
			s := signed(t, c.world)
			if c.after != nil {
				c.after(s)
			}
			_, err := readSigned(t, s)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
}

// documents are both forms of one chain.
func documents(t *testing.T, c bom.Chain) map[string][]byte {
	t.Helper()
	list := map[string][]byte{}
	for name, write := range map[string]func(bom.Chain) ([]byte, error){"CycloneDX": bom.CycloneDX, "SPDX": bom.SPDX} {
		doc, err := write(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := write(c)
		if err != nil || !bytes.Equal(doc, again) {
			t.Errorf("%s: the same chain gave other bytes, %v", name, err)
		}
		list[name] = doc
	}
	return list
}

var validators = map[string]func([]byte) error{"CycloneDX": bomschemas.CycloneDX, "SPDX": bomschemas.SPDX}

func TestDocumentsAreValid(t *testing.T) {
	full := read(t)
	bare := full
	bare.Licence, bare.Architecture, bare.Metrics, bare.Corpora, bare.Tool = "", "", nil, nil, ""
	other := full
	other.Licence, other.Limits = "some-hub-licence", []string{"q8-evaluated: kernel x 1: undecided"}
	for kind, c := range map[string]bom.Chain{"full": full, "bare": bare, "other": other} {
		for name, doc := range documents(t, c) {
			if err := validators[name](doc); err != nil {
				t.Errorf("%s, %s: %v\n%s", name, kind, err, doc)
			}
			for _, hex := range []string{policytest.Artifact.Digest.Encoded(), policytest.BF16.Digest.Encoded(), policytest.Weights.Digest.Encoded()} {
				if !bytes.Contains(doc, []byte(hex)) {
					t.Errorf("%s, %s: the digest %s is nowhere", name, kind, hex)
				}
			}
			if want := "pkg:huggingface/" + policytest.Repository + "@" + policytest.Revision; !bytes.Contains(doc, []byte(want)) {
				t.Errorf("%s, %s: %s is nowhere", name, kind, want)
			}
		}
	}
}

// TestTamperedDocumentsAreInvalid shows that the schemas check what we rely on.
func TestTamperedDocumentsAreInvalid(t *testing.T) {
	docs := documents(t, read(t))
	for _, c := range []struct{ name, old, new string }{
		{"CycloneDX", `"content": "` + policytest.Artifact.Digest.Encoded() + `"`, `"content": ""`},
		{"CycloneDX", `"content": "` + policytest.Artifact.Digest.Encoded() + `"`, `"content": "` + policytest.Artifact.Digest.Encoded()[1:] + `"`},
		{"CycloneDX", `"alg": "SHA-256"`, `"alg": "sha256"`},
		{"CycloneDX", `"machine-learning-model"`, `"model"`},
		{"CycloneDX", `"specVersion": "1.6"`, `"spec": "1.6"`},
		{"CycloneDX", `"ancestors"`, `"parents"`},
		{"CycloneDX", `urn:uuid:`, `urn:`},
		{"SPDX", `"hashValue"`, `"hash"`},
		{"SPDX", `"algorithm": "sha256"`, `"algorithm": "SHA-256"`},
		{"SPDX", `"ai_AIPackage"`, `"ai_Model"`},
		{"SPDX", `"descendantOf"`, `"childOf"`},
		{"SPDX", `"build_buildType"`, `"build_type"`},
		{"SPDX", `"createdBy"`, `"by"`},
		{"SPDX", `spdx.org/rdf/3.0.1`, `spdx.org/rdf/9.9.9`},
	} {
		doc := docs[c.name]
		if !bytes.Contains(doc, []byte(c.old)) {
			t.Errorf("%s has no %s", c.name, c.old)
			continue
		}
		if validators[c.name](bytes.Replace(doc, []byte(c.old), []byte(c.new), 1)) == nil {
			t.Errorf("%s: with %s in place of %s it is still valid", c.name, c.new, c.old)
		}
	}
}

// TestReferencesAreDefined follows every reference within the documents, which no schema does.
func TestReferencesAreDefined(t *testing.T) {
	docs := documents(t, read(t))
	var spdx struct {
		Graph []map[string]any `json:"@graph"`
	}
	if err := json.Unmarshal(docs["SPDX"], &spdx); err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{"_:creation": true}
	for _, e := range spdx.Graph {
		if id, ok := e["spdxId"].(string); ok {
			if defined[id] {
				t.Errorf("%s is defined twice", id)
			}
			defined[id] = true
		}
	}
	used := 0
	for _, e := range spdx.Graph {
		for _, key := range []string{"from", "to", "rootElement", "element", "createdBy", "originatedBy", "suppliedBy", "creationInfo"} {
			list, _ := e[key].([]any)
			if s, ok := e[key].(string); ok {
				list = []any{s}
			}
			for _, id := range list {
				used++
				if !defined[id.(string)] {
					t.Errorf("%v is used by %v and nowhere defined", id, e["spdxId"])
				}
			}
		}
	}
	if used < 20 {
		t.Errorf("only %d references were followed", used)
	}
	refs := map[string]int{}
	var walk func(v any, key string)
	uses := map[string]bool{}
	walk = func(v any, key string) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(x, k)
			}
		case []any:
			for _, x := range v {
				walk(x, key)
			}
		case string:
			if key == "bom-ref" {
				refs[v]++
			}
			if key == "ref" {
				uses[v] = true
			}
		}
	}
	var cyclonedx any
	if err := json.Unmarshal(docs["CycloneDX"], &cyclonedx); err != nil {
		t.Fatal(err)
	}
	walk(cyclonedx, "")
	for r, n := range refs {
		if n != 1 {
			t.Errorf("bom-ref %s is there %d times", r, n)
		}
	}
	for u := range uses {
		if refs[u] == 0 {
			t.Errorf("ref %s is nowhere defined", u)
		}
	}
	if len(uses) < 3 {
		t.Errorf("only %d refs", len(uses))
	}
}
