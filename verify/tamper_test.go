package verify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// tampering is one thing altered in a delivery that verifies.
type tampering struct {
	name    string
	do      func(t *testing.T, d *delivery)
	whole   schemas.Verdict
	check   string
	verdict schemas.Verdict
	words   []string
}

func run(t *testing.T, list []tampering) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			d := deliver(t, policytest.New(t, fixtures.Policy))
			c.do(t, d)
			want(t, d.verify(t), c.whole, c.check, c.verdict, c.words...)
		})
	}
}

// entry finds the first entry of a predicate type.
func entry(t *testing.T, d *delivery, predicateType string) int {
	t.Helper()
	for i, e := range d.Package.Index.Entries {
		if e.Leaf.PredicateType == predicateType {
			return i
		}
	}
	t.Fatalf("the package has no %s", predicateType)
	return 0
}

// forge changes the bundle of an entry, and its leaf with it: only signature and log can tell.
func forge(t *testing.T, d *delivery, i int, do func(bundle map[string]any)) {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(d.Package.Bundles[i], &b); err != nil {
		t.Fatal(err)
	}
	do(b)
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	d.Package.Bundles[i] = body
	d.Package.Index.Entries[i].Leaf.Bundle = godigest.FromBytes(body)
}

// payload changes the signed Statement inside a bundle.
func payload(old, new string) func(map[string]any) {
	return func(b map[string]any) {
		env := b["dsseEnvelope"].(map[string]any)
		body, err := base64.StdEncoding.DecodeString(env["payload"].(string))
		if err != nil || !bytes.Contains(body, []byte(old)) {
			panic(fmt.Sprintf("the payload does not hold %s: %v", old, err))
		}
		env["payload"] = base64.StdEncoding.EncodeToString(bytes.Replace(body, []byte(old), []byte(new), 1))
	}
}

func TestAlteredFilesAreNamed(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	run(t, []tampering{
		{"one bit of the file", func(t *testing.T, d *delivery) { d.file[3] ^= 1 }, failed, "file", failed,
			[]string{"want " + policytest.Artifact.Digest.String() + ", 19 bytes: the file that the evidence is about"}},
		{"a byte more", func(t *testing.T, d *delivery) { d.file = append(d.file, 0) }, failed, "file", failed, []string{"20 bytes"}},
		{"an altered file and no claim about it", func(t *testing.T, d *delivery) { d.file[3] ^= 1 }, failed, "name", undecided, []string{"no claim is about sha256:"}},
		{"another name", func(t *testing.T, d *delivery) { d.Name = "model-BF16.gguf" }, failed, "name", failed,
			[]string{"got model-BF16.gguf, want the name it was made under: model-Q8_0.gguf"}},
		{"another file that the package now claims to be about", func(t *testing.T, d *delivery) {
			d.file = []byte("another model")
			d.Package.Index.File.Digest, d.Package.Index.File.Size = godigest.FromBytes(d.file), int64(len(d.file))
		}, undecided, "decision", undecided, []string{"no acceptance of sha256:"}},
	})
}

func TestAlteredBundlesAreNamed(t *testing.T) {
	failed := schemas.Failed
	sig := func(b map[string]any) map[string]any {
		return b["dsseEnvelope"].(map[string]any)["signatures"].([]any)[0].(map[string]any)
	}
	list := []tampering{
		{"a bundle, but not its leaf", func(t *testing.T, d *delivery) { d.Package.Bundles[0] = append(d.Package.Bundles[0], ' ') },
			failed, "bundles", failed, []string{"bundle of entry 0: got sha256:", "as its leaf says"}},
		{"two bundles swapped", func(t *testing.T, d *delivery) {
			b := d.Package.Bundles
			b[0], b[1] = b[1], b[0]
		}, failed, "bundles", failed, []string{"bundle of entry 1"}},
	}
	for name, c := range map[string]struct {
		do    func(map[string]any)
		words string
	}{
		"the payload":       {payload(`"licence"`, `"licensed"`), "got a signature that does not verify"},
		"the _type":         {payload("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0"), "got a signature that does not verify"},
		"the predicateType": {payload("slsa.dev/provenance/v1", "slsa.dev/provenance/v2"), "got a signature that does not verify"},
		"the signature": {func(b map[string]any) {
			raw, err := base64.StdEncoding.DecodeString(sig(b)["sig"].(string))
			if err != nil {
				panic(err)
			}
			raw[0] ^= 1
			sig(b)["sig"] = base64.StdEncoding.EncodeToString(raw)
		}, "got a signature that does not verify, want one by functionary producer"},
		"the payloadType": {func(b map[string]any) { b["dsseEnvelope"].(map[string]any)["payloadType"] = "application/json" }, `payloadType at /dsseEnvelope/payloadType: got "application/json"`},
		"a second signature": {func(b map[string]any) {
			env := b["dsseEnvelope"].(map[string]any)
			env["signatures"] = append(env["signatures"].([]any), env["signatures"].([]any)[0])
		}, "got 2 signatures, want exactly one"},
		"no signature": {func(b map[string]any) { b["dsseEnvelope"].(map[string]any)["signatures"] = []any{} }, "got no signature"},
		"no envelope":  {func(b map[string]any) { delete(b, "dsseEnvelope") }, "envelope"},
	} {
		if name == "the payload" {
			c.do = payload(`"allow"`, `"alloy"`)
		}
		list = append(list, tampering{name, func(t *testing.T, d *delivery) { forge(t, d, 0, c.do) }, failed, "signatures", failed, []string{"bundle of entry 0", c.words}})
		list = append(list, tampering{name + ", seen by the log", func(t *testing.T, d *delivery) { forge(t, d, 0, c.do) }, failed, "inclusion", failed, []string{"proof of entry 0", "does not lead from the leaf"}})
	}
	run(t, list)
}

func TestTheLogsPartsAreBound(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	run(t, []tampering{
		{"a leaf's PAE", func(t *testing.T, d *delivery) { d.Package.Index.Entries[2].Leaf.PAE = godigest.FromString("other") },
			failed, "signatures", failed, []string{"want https://slsa.dev/provenance/v1, " + godigest.FromString("other").String() + " as its leaf says"}},
		{"a leaf's predicate type", func(t *testing.T, d *delivery) { d.Package.Index.Entries[2].Leaf.PredicateType = attest.VSAType },
			failed, "inclusion", failed, []string{"proof of entry 2"}},
		{"a leaf's time", func(t *testing.T, d *delivery) { d.Package.Index.Entries[2].Leaf.Appended = "2020-01-01T00:00:00Z" },
			failed, "inclusion", failed, []string{"proof of entry 2", "does not lead"}},
		{"an entry from the future", func(t *testing.T, d *delivery) { d.At = policytest.Now.Add(-time.Second) },
			failed, "signatures", failed, []string{"appended 2026-03-01T12:00:00Z, which is after now"}},
		{"a proof of another entry", func(t *testing.T, d *delivery) { d.Package.Proofs[1] = d.Package.Proofs[2] },
			failed, "inclusion", failed, []string{"proof of entry 1", "the proof is of another entry"}},
		{"a proof without its checkpoint", func(t *testing.T, d *delivery) {
			p := d.Package.Proofs[1]
			d.Package.Proofs[1] = p[:bytes.Index(p, []byte("\n\n"))+2]
		}, failed, "inclusion", failed, []string{"tlog-proof has no checkpoint"}},
		{"a checkpoint altered by one digit", func(t *testing.T, d *delivery) {
			d.Package.Checkpoint = bytes.Replace(d.Package.Checkpoint, []byte("\n13\n"), []byte("\n14\n"), 1)
		}, failed, "checkpoint", failed, []string{"want a checkpoint signed by " + origin}},
		{"a checkpoint of another log's key", func(t *testing.T, d *delivery) { _, d.Log = newLog(t, origin) },
			failed, "checkpoint", failed, []string{"checkpoint is not signed by " + origin}},
		{"proofs that no pinned log signed", func(t *testing.T, d *delivery) { _, d.Log = newLog(t, origin) },
			failed, "inclusion", undecided, []string{"not signed by the pinned log"}},
		{"another origin than the trust file pins", func(t *testing.T, d *delivery) { d.Origin = "example.com/other" },
			failed, "checkpoint", failed, []string{"want example.com/other"}},
		{"another origin in the package", func(t *testing.T, d *delivery) { d.Package.Index.Origin = "example.com/other" },
			failed, "checkpoint", failed, []string{"example.com/log and example.com/other, want example.com/log"}},
		{"a newer checkpoint than the proofs'", func(t *testing.T, d *delivery) {
			w := policytest.New(t, fixtures.Policy)
			if _, err := d.log.Append(t.Context(), w.Sign(t).Bundles[0]); err != nil {
				t.Fatal(err)
			}
			cp, err := d.log.Checkpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d.Package.Checkpoint = cp
		}, failed, "inclusion", failed, []string{"got a tree of 13 entries, want the checkpoint's, of 14"}},
		{"no entries", func(t *testing.T, d *delivery) {
			d.Package.Index.Entries, d.Package.Bundles, d.Package.Proofs = nil, nil, nil
		}, undecided, "bundles", undecided, []string{"got none, want the attestations"}},
	})
}

// A refusal that stands behind an acceptance must not be told as if it stood before it.
func TestEntriesCannotBeReordered(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	w.Add(t, "", policytest.Summary("second-look", "FAILED", nil))
	d := deliver(t, w)
	want(t, d.verify(t), schemas.Failed, "accepted", schemas.Failed, "the newest decision is FAILED")
	p := d.Package
	first, last := entry(t, d, attest.VSAType), len(p.Bundles)-1
	p.Bundles[first], p.Bundles[last] = p.Bundles[last], p.Bundles[first]
	p.Proofs[first], p.Proofs[last] = p.Proofs[last], p.Proofs[first]
	e := p.Index.Entries
	e[first].Leaf, e[last].Leaf = e[last].Leaf, e[first].Leaf
	d.Package = reread(t, p)
	want(t, d.verify(t), schemas.Failed, "inclusion", schemas.Failed, fmt.Sprintf("a proof of place %d in the log, want place %d", last, first))
	// Nor by telling the entries in another order under their own places.
	d = deliver(t, w)
	e = d.Package.Index.Entries
	for i, j := 0, len(e)-1; i < j; i, j = i+1, j-1 {
		e[i], e[j] = e[j], e[i]
		b, q := d.Package.Bundles, d.Package.Proofs
		b[i], b[j], q[i], q[j] = b[j], b[i], q[j], q[i]
	}
	want(t, d.verify(t), schemas.Failed, "inclusion", schemas.Failed, "behind the entry before it")
}

func TestObjectsAndPolicyAreBound(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	some := func(d *delivery) godigest.Digest { return d.Package.Index.Objects[0].Digest }
	run(t, []tampering{
		{"an altered object", func(t *testing.T, d *delivery) { d.Package.Objects[some(d)] = []byte("{}") },
			failed, "objects", failed, []string{"want the bytes of its name"}},
		{"an object that nobody vouches for", func(t *testing.T, d *delivery) {
			body := []byte("smuggled")
			d.Package.Objects[godigest.FromBytes(body)] = body
			d.Package.Index.Objects = append(d.Package.Index.Objects, evidence.Object{Digest: godigest.FromBytes(body), Size: int64(len(body))})
		}, undecided, "objects", undecided, []string{"got bytes that no claim names"}},
		{"an object that is not there", func(t *testing.T, d *delivery) {
			delete(d.Package.Objects, d.Package.Index.Objects[0].Digest)
			d.Package.Index.Objects = d.Package.Index.Objects[1:]
		},
			undecided, "objects", undecided, []string{"is not in the package, want its bytes"}},
		{"another policy than the one asked for", func(t *testing.T, d *delivery) { d.Input.Policy = append([]byte("#\n"), d.Package.Policy...) },
			failed, "policy document", failed, []string{"the policy that was asked for"}},
		{"an easier policy in the package", func(t *testing.T, d *delivery) {
			d.Package.Policy = bytes.Replace(d.Package.Policy, []byte("value: 0.003,"), []byte("value: 30,"), 1)
		}, failed, "accepted", failed, []string{"decided under policy " + policyDigest(t).String()}},
		{"a policy that cannot be read", func(t *testing.T, d *delivery) { d.Package.Policy = []byte("name: x\nname: y\n") },
			failed, "policy document", failed, []string{"want a valid policy"}},
		{"a policy that could not say no", func(t *testing.T, d *delivery) {
			d.Package.Policy = bytes.Replace(d.Package.Policy, []byte("requires: [source, chain,"), []byte("requires: [source,"), 1)
		}, failed, "policy document", failed, []string{"the rule chain is missing", "a valid policy that can say no"}},
		{"a policy that cannot be asked", func(t *testing.T, d *delivery) { d.Package.Policy = nil },
			failed, "decision", undecided, []string{"one that can be asked"}},
		{"the policy that was asked for", func(t *testing.T, d *delivery) { d.Input.Policy = bytes.Clone(d.Package.Policy) },
			schemas.Passed, "policy document", schemas.Passed, []string{"example-release"}},
	})
}

func policyDigest(t *testing.T) godigest.Digest {
	t.Helper()
	return policytest.New(t, fixtures.Policy).PolicyDigest()
}

func TestMissingBundlesAndUnknownPeople(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	leaveOut := func(i int) func(*testing.T, *delivery) {
		return func(t *testing.T, d *delivery) {
			p := d.Package
			p.Bundles = append(p.Bundles[:i:i], p.Bundles[i+1:]...)
			p.Proofs = append(p.Proofs[:i:i], p.Proofs[i+1:]...)
			p.Index.Entries = append(p.Index.Entries[:i:i], p.Index.Entries[i+1:]...)
		}
	}
	run(t, []tampering{
		{"the publisher's bundle left out", leaveOut(0), undecided, "source", undecided, []string{"the chain does not reach an acquire claim"}},
		{"an examination left out", leaveOut(4), undecided, "checks", undecided, []string{"derive of the artifact against source: got no claim"}},
		{"the acceptance left out", leaveOut(8), undecided, "accepted", undecided, []string{"no summary by gatekeeper"}},
		{"the acceptance run left out", leaveOut(7), undecided, "decision", undecided, []string{"no acceptance of"}},
		{"a reader who does not know the producer", func(t *testing.T, d *delivery) {
			key, err := keys.Generate(keys.ECDSA)
			if err != nil {
				t.Fatal(err)
			}
			if d.Claims, err = sigstore.NewVerifier([]sigstore.Functionary{{Name: policytest.Producer, PublicKey: key.Public()}}, sigstore.Options{}); err != nil {
				t.Fatal(err)
			}
		}, failed, "signatures", failed, []string{"functionary: got a key with the hint", "want a key that the trust file names"}},
		{"a reader whose context ended", func(t *testing.T, d *delivery) { d.Claims = ended{d.Claims} }, failed, "signatures", failed, []string{"context canceled"}},
	})
	t.Run("a decision that the policy has not", func(t *testing.T) {
		d := deliver(t, policytest.New(t, fixtures.Policy))
		d.Decision = "publish"
		want(t, d.verify(t), undecided, "decision", undecided, "none of that name")
	})
	t.Run("a stranger's signature in the chain", func(t *testing.T) {
		w := policytest.New(t, fixtures.Policy)
		w.Step(t, "q8").By = []string{policytest.Stranger}
		want(t, deliver(t, w).verify(t), failed, "signers", failed, "q8 (quantize): got none of them; and not counted: stranger")
	})
	t.Run("a withdrawn examination", func(t *testing.T) {
		w := policytest.New(t, fixtures.Policy)
		w.Add(t, "", policytest.Withdrawal("back", "q8-evaluated", "the speed was wrong", policytest.Producer))
		d := deliver(t, w)
		want(t, d.verify(t), failed, "accepted", failed, "withdrawn: the speed was wrong")
		want(t, d.verify(t), failed, "withdrawn", schemas.Passed, "the speed was wrong")
		d.Decision = policy.Accept
		want(t, d.verify(t), failed, "checks", undecided, "evaluate of the artifact")
	})
}

// ended verifies under a context that is over.
type ended struct{ attest.Verifier }

func (e ended) Verify(ctx context.Context, bundle []byte, at time.Time) (attest.Claim, error) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return e.Verifier.Verify(ctx, bundle, at)
}
