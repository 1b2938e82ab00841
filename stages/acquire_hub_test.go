package stages

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

func TestScanStatusIsNeverBetterThanTheHubSaysIt(t *testing.T) {
	for want, scans := range map[string]map[string]string{
		"absent":                        nil,
		"3 safe":                        {"config.json": "safe", "model.safetensors": "safe", "empty.txt": "safe"},
		"1 safe, 2 queued":              {"config.json": "queued", "model.safetensors": "queued", "empty.txt": "safe"},
		"1 unsafe, 2 absent":            {"model.safetensors": "unsafe"},
		`2 absent, 1 "examined"`:        {"model.safetensors": "examined"},
		"repository: issues in 1 files": {"pickle.bin": "unsafe"},
		"repository: done, no issues":   {"pickle.bin": "safe"},
		"queued":                        {"pickle.bin": "queued"},
	} {
		s := hubSnapshot()
		s.Scans = scans
		if out := mustAcquire(t, acquireRun(t, s)); out.Facts["scan"] != want {
			t.Errorf("%v: got %q, want %q", scans, out.Facts["scan"], want)
		}
	}
	s := hubSnapshot()
	s.Licence = ""
	if out := mustAcquire(t, acquireRun(t, s)); out.Facts["licence"] != "absent" {
		t.Errorf("licence: got %q, want absent", out.Facts["licence"])
	}
}

// The listing is kept as evidence: file by file, with what the card says the model is made from.
func TestTheListingIsKeptFileByFile(t *testing.T) {
	for _, c := range []struct{ card, want []string }{
		{nil, nil},
		{[]string{"origin/model"}, []string{"origin/model"}},
		{[]string{"z/merged", "a/merged", "a/merged"}, []string{"a/merged", "z/merged"}},
	} {
		s := hubSnapshot()
		s.BaseModels, s.Scans = c.card, map[string]string{"config.json": "safe", "model.safetensors": "queued"}
		run := acquireRun(t, s)
		out := mustAcquire(t, run)
		var listing schemas.Listing
		for _, e := range out.Evidence {
			if e.Name == "listing/publisher" {
				body, err := run.Objects.Get(t.Context(), e.Digest)
				if err != nil {
					t.Fatal(err)
				}
				if err := schemas.DecodeJSON(schemas.ListingURI, body, &listing); err != nil {
					t.Fatal(err)
				}
			}
		}
		if listing.Revision != s.Revision || listing.Licence != s.Licence || !slices.Equal(listing.BaseModels, c.want) {
			t.Errorf("the listing is %+v, want base models %v", listing, c.want)
		}
		states := map[string]string{}
		for _, f := range listing.Files {
			if f.Taken {
				states[f.Path] = f.Scan
			}
		}
		if states["config.json"] != "safe" || states["model.safetensors"] != "queued" || states["empty.txt"] != "absent" || len(states) != 3 {
			t.Errorf("the files taken are %v", states)
		}
	}
}

func TestATokenForOneEndpointIsNotSentToAnother(t *testing.T) {
	const token = "hf_theSecretToken"
	var mu sync.Mutex
	var got []string
	run := acquireRun(t, hubSnapshot(), hubtest.Watch(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Authorization"))
	}))
	env := map[string]string{"HF_TOKEN": token}
	out, err := Acquire{Env: func(k string) string { return env[k] }}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatal(err)
	}
	for _, h := range got {
		if h != "" {
			t.Fatalf("the token of the public hub went to %q", h)
		}
	}
	var with acquireWith
	if err := json.Unmarshal(run.With, &with); err != nil {
		t.Fatal(err)
	}
	env["HF_ENDPOINT"] = with.Endpoint
	out, err = Acquire{Env: func(k string) string { return env[k] }}.Run(t.Context(), run)
	if err != nil || got[len(got)-1] != "Bearer "+token {
		t.Fatalf("with HF_ENDPOINT: %v, %q", err, got[len(got)-1])
	}
	body, err := json.Marshal(out)
	if err != nil || strings.Contains(string(body), token) {
		t.Errorf("the token is in the outcome: %v", err)
	}
	for _, object := range run.Objects.(*mapObjects).body {
		if strings.Contains(string(object), token) {
			t.Error("the token is in the evidence")
		}
	}
}
