package stages

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// guild signs as any of its functionaries and makes claims that verified.
type guild struct {
	keys     map[string]*ecdsa.PrivateKey
	verifier attest.Verifier
}

func newGuild(t *testing.T, names ...string) *guild {
	t.Helper()
	g := &guild{keys: map[string]*ecdsa.PrivateKey{}}
	var list []sigstore.Functionary
	for _, n := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		g.keys[n] = key
		list = append(list, sigstore.Functionary{Name: n, PublicKey: crypto.PublicKey(key.Public())})
	}
	v, err := sigstore.NewVerifier(list, sigstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.verifier = v
	return g
}

func (g *guild) claim(t *testing.T, by string, subject godigest.Digest, predicateType string, predicate proto.Message) attest.Claim {
	t.Helper()
	return g.claimOf(t, by, []*attest.ResourceDescriptor{{Name: "model.gguf", Digest: sha256Set(subject)}}, predicateType, predicate)
}

func (g *guild) claimOf(t *testing.T, by string, subjects []*attest.ResourceDescriptor, predicateType string, predicate proto.Message) attest.Claim {
	t.Helper()
	s, err := attest.NewStatement(subjects, predicateType, predicate)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := sigstore.NewSigner(g.keys[by])
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.verifier.Verify(t.Context(), bundle, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var deliveredPolicy = godigest.FromString("policy")

// acceptance is a good acceptance, edited.
func acceptance(edit func(*vsa.VerificationSummary)) *vsa.VerificationSummary {
	s := &vsa.VerificationSummary{
		Verifier:           &vsa.VerificationSummary_Verifier{Id: schemas.BaseURI + "verifier"},
		ResourceUri:        "artifact",
		Policy:             &vsa.VerificationSummary_Policy{Uri: policy.DecisionURI("", policy.Accept, "8-bit"), Digest: sha256Set(deliveredPolicy)},
		VerificationResult: "PASSED",
		VerifiedLevels:     []string{policy.LevelAccepted},
		SlsaVersion:        "1.1",
	}
	if edit != nil {
		edit(s)
	}
	return s
}

var deliverBody = bytes.Repeat([]byte("accepted"), 10_000)

func deliverRun(t *testing.T, threshold int) *Run {
	t.Helper()
	run := newRun(t, "delivered", map[string]any{})
	path := filepath.Join(run.Project, "model.gguf")
	if err := os.WriteFile(path, deliverBody, 0o444); err != nil {
		t.Fatal(err)
	}
	f, err := readFile(t.Context(), "model.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	run.Inputs["artifact"] = FileArtifact(f)
	run.Extra = &Extra{
		PolicyDigest: deliveredPolicy, Delivered: filepath.Join(run.Project, "delivered"),
		Policy: schemas.Policy{Decisions: map[string]schemas.DecisionRule{policy.Accept: {SignerRule: schemas.SignerRule{Functionaries: []string{"gatekeeper", "second"}, Threshold: threshold}}}},
	}
	return run
}

func TestOnlyAcceptedBytesAreDelivered(t *testing.T) {
	g := newGuild(t, "gatekeeper", "second", "producer")
	good := godigest.FromBytes(deliverBody)
	accept := func(by string, edit func(*vsa.VerificationSummary)) attest.Claim {
		return g.claim(t, by, good, attest.VSAType, acceptance(edit))
	}
	ok := accept("gatekeeper", nil)
	withdrawal, err := structpb.NewStruct(map[string]any{"claim": ok.PAE().String(), "reason": "a wrong fixture"})
	if err != nil {
		t.Fatal(err)
	}
	summary := acceptance(nil)
	evidence := accept("second", nil)
	summary.InputAttestations = []*vsa.VerificationSummary_InputAttestation{{Digest: sha256Set(evidence.Bundle())}}
	resting := g.claim(t, "gatekeeper", good, attest.VSAType, summary)
	above := acceptance(nil)
	above.InputAttestations = []*vsa.VerificationSummary_InputAttestation{{Digest: sha256Set(resting.Bundle())}}
	topmost := g.claim(t, "gatekeeper", good, attest.VSAType, above)
	underneath, err := structpb.NewStruct(map[string]any{"claim": evidence.PAE().String(), "reason": "a wrong corpus"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		threshold int
		claims    []attest.Claim
		verdict   schemas.Verdict
		want      string
	}{
		"accepted":                     {1, []attest.Claim{ok}, schemas.Passed, ""},
		"accepted by two":              {2, []attest.Claim{ok, accept("second", nil)}, schemas.Passed, ""},
		"no claim":                     {1, nil, schemas.Undecided, "no acceptance"},
		"signed by the producer":       {1, []attest.Claim{accept("producer", nil)}, schemas.Undecided, "no acceptance"},
		"accepted twice by one of two": {2, []attest.Claim{ok, accept("gatekeeper", nil)}, schemas.Undecided, "want 2 functionaries"},
		"other bytes accepted":         {1, []attest.Claim{g.claim(t, "gatekeeper", godigest.FromString("x"), attest.VSAType, acceptance(nil))}, schemas.Undecided, "no acceptance"},
		"refused":                      {1, []attest.Claim{accept("gatekeeper", func(s *vsa.VerificationSummary) { s.VerificationResult = "FAILED" })}, schemas.Failed, `"FAILED", want PASSED`},
		"refused later":                {1, []attest.Claim{ok, accept("second", func(s *vsa.VerificationSummary) { s.VerificationResult = "FAILED" })}, schemas.Failed, `"FAILED", want PASSED`},
		"another level":                {1, []attest.Claim{accept("gatekeeper", func(s *vsa.VerificationSummary) { s.VerifiedLevels = []string{"SLSA_BUILD_LEVEL_3"} })}, schemas.Failed, "want WEIGHMASTER_ACCEPTED"},
		"another decision":             {1, []attest.Claim{accept("gatekeeper", func(s *vsa.VerificationSummary) { s.Policy.Uri = policy.DecisionURI("", policy.Deliver, "8-bit") })}, schemas.Failed, "a decision"},
		"another policy":               {1, []attest.Claim{accept("gatekeeper", func(s *vsa.VerificationSummary) { s.Policy.Digest = sha256Set(godigest.FromString("lax")) })}, schemas.Failed, "decided under policy"},
		"withdrawn underneath":         {1, []attest.Claim{evidence, resting, g.claim(t, "second", good, attest.WithdrawalType, underneath)}, schemas.Failed, "it rests on claim " + evidence.PAE().String() + ", withdrawn: a wrong corpus"},
		"withdrawn two below":          {1, []attest.Claim{evidence, resting, topmost, g.claim(t, "second", good, attest.WithdrawalType, underneath)}, schemas.Failed, "claim " + topmost.PAE().String() + ": it rests on claim " + evidence.PAE().String() + ", withdrawn: a wrong corpus"},
		"resting on decisions":         {1, []attest.Claim{evidence, resting, topmost}, schemas.Passed, ""},
		"withdrawn":                    {1, []attest.Claim{ok, g.claim(t, "gatekeeper", good, attest.WithdrawalType, withdrawal)}, schemas.Failed, "withdrawn: a wrong fixture"},
	} {
		t.Run(name, func(t *testing.T) {
			run := deliverRun(t, c.threshold)
			run.Claims = c.claims
			out, err := Deliver{}.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != c.verdict || !strings.Contains(out.Failure, c.want) {
				t.Errorf("%s: %q, want %s because %q", out.Verdict, out.Failure, c.verdict, c.want)
			}
			dest := filepath.Join(run.Extra.Delivered, "model.gguf")
			if c.verdict != schemas.Passed {
				if exists(dest) || exists(dest+".partial") || out.Output != nil {
					t.Error("something was delivered")
				}
				return
			}
			if body, err := os.ReadFile(dest); err != nil || !bytes.Equal(body, deliverBody) || out.Output.Digest != good || out.Facts["destination"] != "model.gguf" {
				t.Errorf("delivered %d bytes, %+v, %v", len(body), out.Output, err)
			}
			if st, err := os.Stat(dest); err != nil || st.Mode().Perm() != 0o444 {
				t.Errorf("mode %v, want read-only", st.Mode())
			}
		})
	}
}

func TestDeliveryResumesOnlyOntoAPrefixAndNeverOverAnotherFile(t *testing.T) {
	g := newGuild(t, "gatekeeper")
	claims := []attest.Claim{g.claim(t, "gatekeeper", godigest.FromBytes(deliverBody), attest.VSAType, acceptance(nil))}
	for name, c := range map[string]struct {
		there, partial []byte
		resumed, want  string
	}{
		"onto a prefix":              {nil, deliverBody[:1000], "1000 bytes", ""},
		"not onto other bytes":       {nil, bytes.Repeat([]byte{7}, 1000), "0 bytes", ""},
		"not onto a longer file":     {nil, append(bytes.Clone(deliverBody), 1), "0 bytes", ""},
		"the same file is there":     {deliverBody, nil, "80000 bytes", ""},
		"another file is there":      {[]byte("other"), nil, "", "a different file is already delivered"},
		"nothing is there":           {nil, nil, "0 bytes", ""},
		"the whole partial is there": {nil, deliverBody, "80000 bytes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			run := deliverRun(t, 1)
			run.Claims = claims
			dest := filepath.Join(run.Extra.Delivered, "model.gguf")
			if err := os.Mkdir(run.Extra.Delivered, 0o755); err != nil {
				t.Fatal(err)
			}
			for path, body := range map[string][]byte{dest: c.there, dest + ".partial": c.partial} {
				if body != nil {
					if err := os.WriteFile(path, body, 0o444); err != nil {
						t.Fatal(err)
					}
				}
			}
			out, err := Deliver{}.Run(t.Context(), run)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if body, _ := os.ReadFile(dest); !bytes.Equal(body, c.there) {
					t.Error("the file that was there was changed")
				}
				return
			}
			if err != nil || out.Verdict != schemas.Passed || out.Facts["resumed"] != c.resumed {
				t.Fatalf("%v: resumed %q, want %q", err, out.Facts["resumed"], c.resumed)
			}
			if body, _ := os.ReadFile(dest); !bytes.Equal(body, deliverBody) {
				t.Error("other bytes at the destination")
			}
		})
	}
}

func TestBytesThatChangedAfterTheirAcceptanceAreNotDelivered(t *testing.T) {
	g := newGuild(t, "gatekeeper")
	run := deliverRun(t, 1)
	run.Claims = []attest.Claim{g.claim(t, "gatekeeper", godigest.FromBytes(deliverBody), attest.VSAType, acceptance(nil))}
	a := run.Inputs["artifact"]
	if err := os.Chmod(a.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.Path, bytes.ToUpper(deliverBody), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Deliver{}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), "not those that were accepted") || exists(filepath.Join(run.Extra.Delivered, "model.gguf")) {
		t.Errorf("got %v", err)
	}
}
