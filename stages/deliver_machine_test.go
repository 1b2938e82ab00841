package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/registry"
	"github.com/weighmaster/weighmaster/stages/registry/registrytest"
	"github.com/weighmaster/weighmaster/stages/remote/sshtest"
)

func sshServer(t *testing.T) *sshtest.Server {
	t.Helper()
	s, err := sshtest.Start(t, sshtest.Options{})
	if errors.Is(err, sshtest.ErrMissing) {
		shared.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// accepting gives a run whose artifact was accepted, with parameters.
func accepting(t *testing.T, g *guild, with map[string]any) *Run {
	t.Helper()
	run := deliverRun(t, 1)
	run.Claims = []attest.Claim{g.claim(t, "gatekeeper", godigest.FromBytes(deliverBody), attest.VSAType, acceptance(nil))}
	body, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.StageParameters("deliver", body); err != nil {
		t.Fatal(err)
	}
	run.With = body
	return run
}

// isElsewhere makes the artifact of a run one whose bytes are on another machine.
func isElsewhere(run *Run) {
	a := run.Inputs["artifact"]
	a.Remote, a.Path, a.Files = true, "", []File{{Name: a.Files[0].Name, Sums: a.Files[0].Sums}}
	run.Inputs["artifact"] = a
}

func wantFacts(t *testing.T, out *Outcome, err error, want map[string]string) {
	t.Helper()
	if err != nil || out.Verdict != schemas.Passed || out.Output == nil {
		t.Fatalf("%v: %+v", err, out)
	}
	d := godigest.FromBytes(deliverBody).String()
	want[schemas.FactLocalDigest], want[schemas.FactRemoteDigest], want[schemas.FactSize] = d, d, fmt.Sprint(len(deliverBody))
	for name, value := range want {
		if out.Facts[name] != value || out.Internal[name] != value {
			t.Errorf("fact %s is %q, and %v in the Statement; want %q", name, out.Facts[name], out.Internal[name], value)
		}
	}
}

func TestDeliveryToAndFromAnotherMachine(t *testing.T) {
	g, s := newGuild(t, "gatekeeper"), sshServer(t)
	to := accepting(t, g, map[string]any{"to": s.Address() + "/models", "config": s.Config})
	out, err := Deliver{}.Run(t.Context(), to)
	wantFacts(t, out, err, map[string]string{"via": "sftp", "resumed": "0 bytes", "remoteDigestBy": "sha256sum at the other end, over ssh", "sources": "nobody acquired a source; there is nothing to compare"})
	if !out.Output.Remote || out.Output.Path != "" || out.Output.Digest != godigest.FromBytes(deliverBody) {
		t.Errorf("output %+v", out.Output)
	}
	if body, err := os.ReadFile(filepath.Join(s.Dir, "models", "model.gguf")); err != nil || !bytes.Equal(body, deliverBody) {
		t.Errorf("%d bytes there, %v", len(body), err)
	}
	if ssh, ok := out.Internal["ssh"].(string); !ok || !strings.HasPrefix(ssh, "sha256:") {
		t.Errorf("the ssh program is %v", out.Internal["ssh"])
	}

	from := accepting(t, g, map[string]any{"from": s.Address() + "/models/model.gguf", "config": s.Config, "to": "here"})
	isElsewhere(from)
	for round, resumed := range []string{"0 bytes", fmt.Sprintf("%d bytes", len(deliverBody))} {
		out, err = Deliver{}.Run(t.Context(), from)
		wantFacts(t, out, err, map[string]string{"via": "sftp", "resumed": resumed})
		path := filepath.Join(from.Project, "here", "model.gguf")
		if body, err := os.ReadFile(path); err != nil || !bytes.Equal(body, deliverBody) || out.Output.Path != path || out.Output.Remote {
			t.Errorf("round %d: %d bytes here, %v, %+v", round, len(body), err, out.Output)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o444 || exists(path+".partial") {
			t.Errorf("round %d: mode %v, %v", round, st.Mode(), err)
		}
	}

	other := accepting(t, g, map[string]any{"from": s.Address() + "/other.gguf", "config": s.Config})
	isElsewhere(other)
	if err := os.WriteFile(filepath.Join(s.Dir, "other.gguf"), bytes.ToUpper(deliverBody), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Deliver{}).Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "the other machine has other bytes than those that were accepted") {
		t.Errorf("other bytes there: %v", err)
	}
	if exists(filepath.Join(other.Extra.Delivered, "model.gguf")) || exists(filepath.Join(other.Extra.Delivered, "model.gguf.partial")) {
		t.Error("something was delivered")
	}
	// Not accepted is not fetched either.
	from.Claims = nil
	if out, err := (Deliver{}).Run(t.Context(), from); err != nil || out.Verdict != schemas.Undecided || out.Output != nil {
		t.Errorf("not accepted: %v, %+v", err, out)
	}
}

func TestDeliveryToAndFromARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	g := newGuild(t, "gatekeeper")
	for kind, variable := range registrytest.Kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := registrytest.Start(t, kind)
			if errors.Is(err, registrytest.ErrMissing) {
				shared.Missing(t, "%s: %v", variable, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			address := "oci://" + s.Host + "/models/example:q8"
			to := accepting(t, g, map[string]any{"to": address})
			if _, err := (Deliver{}).Run(t.Context(), to); err == nil || !strings.Contains(err.Error(), "no evidence to attach was handed in") {
				t.Errorf("without evidence: %v", err)
			}
			to.Extra.Attachment = func(context.Context, Artifact) (registry.Evidence, error) {
				return registry.Evidence{Name: "model.gguf.evidence.zip", Package: []byte("a package"), At: time.Unix(0, 0)}, nil
			}
			out, err := Deliver{}.Run(t.Context(), to)
			wantFacts(t, out, err, map[string]string{"via": "oci", "resumed": "0 bytes", "remoteDigestBy": registry.ReadBack})
			manifest := out.Facts["manifest"]
			from := accepting(t, g, map[string]any{"from": address})
			isElsewhere(from)
			out, err = Deliver{}.Run(t.Context(), from)
			wantFacts(t, out, err, map[string]string{"via": "oci", "manifest": manifest, "remoteDigestBy": registry.PulledBy})
			if body, err := os.ReadFile(out.Output.Path); err != nil || !bytes.Equal(body, deliverBody) {
				t.Errorf("%d bytes here, %v", len(body), err)
			}
		})
	}
}

func TestDeliveriesThatMakeNoSenseAreRefused(t *testing.T) {
	g := newGuild(t, "gatekeeper")
	for name, c := range map[string]struct {
		with   map[string]any
		remote bool
		why    string
	}{
		"from one place to another":          {map[string]any{"from": "ssh://a/b", "to": "oci://c/d:e"}, true, "from: and to: both name another place"},
		"a scheme that nobody knows":         {map[string]any{"to": "ftp://a/b"}, false, "want a folder, ssh:// or oci://"},
		"via without ssh":                    {map[string]any{"via": "rsync"}, false, "via: and config: are for ssh:// alone"},
		"plain HTTP without a registry":      {map[string]any{"plainHTTP": true}, false, "plainHTTP: is for oci:// alone"},
		"bytes elsewhere, nobody says where": {map[string]any{}, true, "are on another machine; say where with from:"},
		"a host that is an option":           {map[string]any{"to": "ssh://-oProxyCommand=x/y"}, false, "its host is no plain host name"},
		"a registry without a tag":           {map[string]any{"to": "oci://127.0.0.1:1/repo"}, false, "it names no tag"},
	} {
		run := accepting(t, g, c.with)
		if c.remote {
			isElsewhere(run)
		}
		if out, err := (Deliver{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, %+v; want %q", name, err, out, c.why)
		}
	}
	for _, with := range []string{`{"to": "a\nb"}`, `{"from": "http://a/b"}`, `{"via": "scp"}`, `{"to": ""}`, `{"nobody": 1}`} {
		if err := schemas.StageParameters("deliver", []byte(with)); err == nil {
			t.Errorf("%s is valid", with)
		}
	}
}
