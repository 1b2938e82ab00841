package attest_test

import (
	"encoding/json"
	"reflect"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
)

// unsigned wraps a payload in a bundle with a signature by nobody.
func unsigned(t testing.TB, payload string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "nobody"}},
		"dsseEnvelope": map[string]any{
			"payload": []byte(payload), "payloadType": attest.PayloadType,
			"signatures": []any{map[string]any{"sig": []byte("none")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestUnverifiedIndex(t *testing.T) {
	payload := withPredicate(attest.ProvenanceType, `{"buildDefinition":{"buildType":"x","resolvedDependencies":[`+
		`{"name":"input/model","digest":{"sha256":"`+shaB+`"}},{"name":"source/repository","digest":{"gitCommit":"`+shaB[:40]+`"}},{"name":"tool/t","digest":{"sha256":"`+shaA+`"}}]},`+
		`"runDetails":{"builder":{"id":"y"},"byproducts":[{"name":"report/x","digest":{"sha256":"`+shaB+`"}}]}}`)
	pae, predicateType, subjects, dependencies, err := attest.UnverifiedIndex(unsigned(t, payload))
	if err != nil {
		t.Fatal(err)
	}
	named := func(name, hex string) attest.NamedDigest {
		return attest.NamedDigest{Name: name, Digest: godigest.NewDigestFromEncoded(godigest.SHA256, hex)}
	}
	if predicateType != attest.ProvenanceType || !reflect.DeepEqual(subjects, []attest.NamedDigest{named("a", shaA)}) {
		t.Errorf("got %s over %v", predicateType, subjects)
	}
	// A git commit is no sha256: nothing can be found by it, and it is left out.
	if want := []attest.NamedDigest{named("input/model", shaB), named("tool/t", shaA)}; !reflect.DeepEqual(dependencies, want) {
		t.Errorf("got the dependencies %v, want %v", dependencies, want)
	}
	// DSSE v1: PAE is "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body.
	want := godigest.FromString("DSSEv1 28 application/vnd.in-toto+json " + itoa(len(payload)) + " " + payload)
	if pae != want {
		t.Errorf("got the PAE %s, want %s", pae, want)
	}
}

func TestUnverifiedIndexOfOtherPredicates(t *testing.T) {
	_, _, subjects, dependencies, err := attest.UnverifiedIndex(unsigned(t, withPredicate(attest.VSAType,
		`{"verifier":{"id":"v"},"verificationResult":"PASSED","inputAttestations":[{"uri":"urn:x","digest":{"sha256":"`+shaB+`"}}]}`)))
	if err != nil || len(subjects) != 1 || len(dependencies) != 0 {
		t.Errorf("got %v and %v, %v; want the subject and no dependency: an attestation is no artifact", subjects, dependencies, err)
	}
}

func TestUnverifiedIndexRefusesLooseStatements(t *testing.T) {
	_, _, _, _, err := attest.UnverifiedIndex(unsigned(t, withSubjects(`[]`)))
	wantRefused(t, err, attest.CheckSubject, "no subject")
	_, _, _, _, err = attest.UnverifiedIndex([]byte(`{"mediaType":"x","mediaType":"y"}`))
	wantRefused(t, err, attest.CheckBundle, `"mediaType" twice`)
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }
