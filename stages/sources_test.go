package stages

import (
	"errors"
	"strings"
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// acquired is a claim that a machine acquired files of a revision, each of a word.
func (g *guild) acquired(t *testing.T, by, machine, revision string, allow []string, files map[string]string) attest.Claim {
	t.Helper()
	external, err := toStruct(schemas.ExternalParameters{
		Stage: "source", Uses: "acquire", Inputs: map[string]string{}, With: []byte("{}"), Machine: machine,
		Publisher: &schemas.Publisher{Repository: "owner/model", Revision: strings.Repeat(revision, 40), Allow: allow},
	})
	if err != nil {
		t.Fatal(err)
	}
	var subjects []*attest.ResourceDescriptor
	if files != nil {
		subjects = append(subjects, &attest.ResourceDescriptor{Name: "snapshot/", Digest: sha256Set(godigest.FromString(by + machine))})
	} else {
		subjects = append(subjects, &attest.ResourceDescriptor{Name: "result", Digest: sha256Set(godigest.FromString(by + machine))})
	}
	for _, name := range sortedKeys(files) {
		subjects = append(subjects, &attest.ResourceDescriptor{Name: "snapshot/" + name, Digest: sha256Set(godigest.FromString(files[name]))})
	}
	return g.claimOf(t, by, subjects, attest.ProvenanceType, &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: schemas.BuildType("acquire"), ExternalParameters: external},
		RunDetails:      &provenance.RunDetails{Builder: &provenance.Builder{Id: builderID}},
	})
}

func TestTheMachinesSourcesAreComparedFileByFile(t *testing.T) {
	g := newGuild(t, "producer", "laptop")
	all := []string{"*"}
	good := map[string]string{"config.json": "c", "model.safetensors": "m", "empty.txt": ""}
	with := func(name, word string) map[string]string {
		m := map[string]string{"config.json": "c", "model.safetensors": "m", "empty.txt": ""}
		if m[name] = word; word == "-" {
			delete(m, name)
		}
		return m
	}
	vm := g.acquired(t, "producer", "vm", "a", all, good)
	bad := g.acquired(t, "laptop", "laptop", "a", all, with("model.safetensors", "x"))
	body, err := toStruct(schemas.Withdrawal{Claim: bad.PAE(), Reason: "a broken disk"})
	if err != nil {
		t.Fatal(err)
	}
	gone := g.claim(t, "laptop", godigest.FromString("x"), attest.WithdrawalType, body)
	for name, c := range map[string]struct {
		claims []attest.Claim
		words  string
		differ string
	}{
		"nobody acquired":             {nil, "nobody acquired a source", ""},
		"one machine alone":           {[]attest.Claim{vm}, "was acquired by producer on vm alone; no other machine acquired it", ""},
		"the same":                    {[]attest.Claim{vm, g.acquired(t, "laptop", "laptop", "a", all, good)}, "3 files of owner/model@" + strings.Repeat("a", 40) + " agree, as acquired by producer on vm and by laptop on laptop", ""},
		"another byte":                {[]attest.Claim{vm, bad}, "", "model.safetensors of owner/model@"},
		"a file is missing":           {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", all, with("config.json", "-"))}, "", "laptop has no such file"},
		"a file more":                 {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", all, with("zz", "z"))}, "", "producer on vm has no such file"},
		"the first by name is named":  {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", all, map[string]string{"config.json": "x", "model.safetensors": "x"})}, "", "differ: config.json of"},
		"another allow-list":          {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", []string{"*.json"}, map[string]string{"config.json": "c"})}, "1 files of", ""},
		"another list, another byte":  {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", []string{"*.json"}, map[string]string{"config.json": "d"})}, "", "config.json of"},
		"another revision":            {[]attest.Claim{vm, g.acquired(t, "laptop", "", "b", all, with("config.json", "d"))}, "no other machine acquired it; owner/model@", ""},
		"withdrawn":                   {[]attest.Claim{vm, bad, gone}, "acquired by producer on vm alone", ""},
		"acquired again, and rightly": {[]attest.Claim{vm, bad, g.acquired(t, "laptop", "laptop", "a", all, good)}, "3 files of", ""},
		"a run that came to nothing":  {[]attest.Claim{vm, g.acquired(t, "laptop", "", "a", all, nil)}, "acquired by producer on vm alone", ""},
	} {
		words, err := CompareSources(c.claims)
		var differ *SourcesDifferError
		switch {
		case c.differ == "" && (err != nil || !strings.Contains(words, c.words)):
			t.Errorf("%s: %q, %v; want %q", name, words, err, c.words)
		case c.differ != "" && (!errors.As(err, &differ) || !strings.Contains(err.Error(), c.differ) || words != ""):
			t.Errorf("%s: %q, %v; want %q", name, words, err, c.differ)
		}
	}
}
