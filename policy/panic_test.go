package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Statements that a trusted signer really signed, and that say anything at all:
// each is a chain's own with pieces taken out, doubled, swapped or replaced. What
// attest takes must be judged without a panic, twice the same, and never be a yes
// that the honest chain would not be.
func TestNoEvidencePanics(t *testing.T) {
	w := worlds()[0]
	rng := rand.New(rand.NewPCG(1, 2))
	var strange []attest.Claim
	refused := 0
	for len(strange) < 200 {
		honest := w.ev.Claims[rng.IntN(len(w.ev.Claims))]
		claim, err := mangled(w.World, honest, rng)
		if err != nil {
			refused++
			continue
		}
		strange = append(strange, claim)
	}
	q := question(w.World, policy.Redistribute)
	readable := 0
	for round := range 60 {
		ev := policy.Evidence{Objects: map[godigest.Digest][]byte{}, Witnesses: w.ev.Witnesses}
		for range rng.IntN(25) {
			ev.Claims = append(ev.Claims, strange[rng.IntN(len(strange))])
		}
		for _, c := range w.ev.Claims {
			if rng.IntN(3) > 0 {
				ev.Claims = append(ev.Claims, c)
			}
		}
		for _, d := range sortedDigests(w.ev.Objects) {
			switch rng.IntN(8) {
			case 0:
			case 1:
				ev.Objects[d] = []byte(`{"schema":1}`) // not what its name says
			default:
				ev.Objects[d] = w.ev.Objects[d]
			}
		}
		q.Decision = decisions[round%3]
		a, err := policy.Decide(w.Policy, ev, q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := policy.Decide(w.Policy, ev, q)
		if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("asked twice it answers differently: %v\n%v\n%v", err, a, b)
		}
		if doc, err := policy.Document(w.Policy, ev, q); err != nil {
			t.Fatalf("the document: %v\n%.2000s", err, doc)
		}
		runs, _ := policy.Runs(ev.Claims)
		readable += len(runs)
		_, _ = policy.ClassOf(w.Policy, ev.Claims, q.Artifact)
	}
	if readable < 250 || refused == 0 {
		t.Errorf("%d readable runs, %d Statements refused by attest; the test looks at too little", readable, refused)
	}
}

// mangled signs a changed copy of a claim's Statement by somebody trusted.
func mangled(w *policytest.World, honest attest.Claim, rng *rand.Rand) (attest.Claim, error) {
	body, err := protojson.Marshal(honest.Statement())
	if err != nil {
		return attest.Claim{}, err
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		return attest.Claim{}, err
	}
	for range 1 + rng.IntN(3) {
		mangle(tree["predicate"], rng)
		if rng.IntN(4) == 0 {
			mangle(tree["subject"], rng)
		}
	}
	if body, err = json.Marshal(tree["predicate"]); err != nil {
		return attest.Claim{}, err
	}
	st := &attest.Statement{Type: attest.StatementType, Subject: honest.Statement().GetSubject(), PredicateType: honest.PredicateType(), Predicate: &structpb.Struct{}}
	if err := protojson.Unmarshal(body, st.Predicate); err != nil {
		return attest.Claim{}, err
	}
	if rng.IntN(5) == 0 {
		st.PredicateType = []string{attest.ProvenanceType, attest.VSAType, attest.WithdrawalType, attest.CompletionType, schemas.ReviewURI, "https://example.org/other/v1"}[rng.IntN(6)]
	}
	by := []string{policytest.Producer, policytest.Gatekeeper, policytest.Second, policytest.Stranger}[rng.IntN(4)]
	bundle, err := w.Signers[by].Sign(context.Background(), st)
	if err != nil {
		return attest.Claim{}, err
	}
	return w.Verifier.Verify(context.Background(), bundle, policytest.Now.Add(time.Minute))
}

// mangle changes one thing somewhere in a JSON tree.
func mangle(v any, rng *rand.Rand) {
	switch t := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(t))
		for k := range t {
			keys = append(keys, k)
		}
		if len(keys) == 0 {
			return
		}
		slices.Sort(keys)
		k := keys[rng.IntN(len(keys))]
		if rng.IntN(3) > 0 && canDescend(t[k]) {
			mangle(t[k], rng)
			return
		}
		switch rng.IntN(4) {
		case 0:
			delete(t, k)
		case 1:
			t[k] = t[keys[rng.IntN(len(keys))]]
		case 2:
			t[k] = anything(rng)
		default:
			if s, ok := t[k].(string); ok {
				t[k] = strings.Replace(s, "a", "b", 1)
			}
		}
	case []any:
		if len(t) == 0 {
			return
		}
		i := rng.IntN(len(t))
		if rng.IntN(3) > 0 && canDescend(t[i]) {
			mangle(t[i], rng)
			return
		}
		t[i] = t[rng.IntN(len(t))]
	}
}

func canDescend(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func anything(rng *rand.Rand) any {
	return []any{"", "x", nil, true, -1.0, 1e300, map[string]any{}, []any{}, []any{"x"}, map[string]any{"sha256": strings.Repeat("0", 64)}, "sha256:" + strings.Repeat("0", 64)}[rng.IntN(11)]
}
