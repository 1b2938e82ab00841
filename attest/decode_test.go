package attest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
)

var (
	shaA = strings.Repeat("ab", 32)
	shaB = strings.Repeat("cd", 32)
)

// withSubjects is a Statement of an unknown predicate type over these subjects.
func withSubjects(subjects string) string {
	return `{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://example.org/said/v1","predicate":{},"subject":` + subjects + `}`
}

func withDigests(digests string) string {
	return withSubjects(`[{"name":"a","digest":` + digests + `}]`)
}

func withPredicate(predicateType, predicate string) string {
	return `{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + predicateType + `","predicate":` + predicate +
		`,"subject":[{"name":"a","digest":{"sha256":"` + shaA + `"}}]}`
}

func TestDecodeStatementAccepts(t *testing.T) {
	sha1 := strings.Repeat("0e", 20)
	for name, payload := range map[string]string{
		"one strong digest":                   withDigests(`{"sha256":"` + shaA + `"}`),
		"sha512 alone":                        withDigests(`{"sha512":"` + shaA + shaA + `"}`),
		"a weak one beside a strong one":      withDigests(`{"sha256":"` + shaA + `","gitBlob":"` + sha1 + `"}`),
		"an unknown one beside a strong one":  withDigests(`{"sha256":"` + shaA + `","future":"x"}`),
		"two names for the same bytes":        withSubjects(`[{"name":"a","digest":{"sha256":"` + shaA + `"}},{"name":"b","digest":{"sha256":"` + shaA + `"}}]`),
		"a surrogate pair":                    withSubjects(`[{"name":"\ud83d\ude00","digest":{"sha256":"` + shaA + `"}}]`),
		"provenance":                          withPredicate(attest.ProvenanceType, `{"buildDefinition":{"buildType":"x","externalParameters":{"any":{"key":[1]}}},"runDetails":{"builder":{"id":"y"}}}`),
		"a withdrawal":                        withPredicate(attest.WithdrawalType, `{"claim":"sha256:`+shaA+`","reason":"the speed was measured beside another model"}`),
		"an unknown predicate, whatever form": withPredicate("https://example.org/x", `{"Any":{"thing":null}}`),
	} {
		t.Run(name, func(t *testing.T) {
			s, predicate, err := attest.DecodeStatement([]byte(payload))
			if err != nil {
				t.Fatal(err)
			}
			if s.GetSubject()[0].GetName() == "" || !strings.Contains(payload, string(predicate)) {
				t.Errorf("read as %v with predicate %s", s, predicate)
			}
		})
	}
}

func TestDecodeStatementRefuses(t *testing.T) {
	sha1, md5 := strings.Repeat("0e", 20), strings.Repeat("0e", 16)
	good := withDigests(`{"sha256":"` + shaA + `"}`)
	for _, c := range []struct {
		name, payload string
		check         attest.Check
		words         string
	}{
		{"no subjects", withSubjects(`[]`), attest.CheckSubject, "no subject"},
		{"null subjects", withSubjects(`null`), attest.CheckSubject, "no subject"},
		{"a subject without a name", withSubjects(`[{"digest":{"sha256":"` + shaA + `"}}]`), attest.CheckSubject, "no name"},
		{"two subjects of one name", withSubjects(`[{"name":"a","digest":{"sha256":"` + shaA + `"}},{"name":"a","digest":{"sha256":"` + shaB + `"}}]`), attest.CheckSubject, "/subject/0 has it"},
		{"a subject without a digest", withSubjects(`[{"name":"a"}]`), attest.CheckDigest, "no digest"},
		{"an empty digest set", withDigests(`{}`), attest.CheckDigest, "no digest"},
		{"md5 only", withDigests(`{"md5":"` + md5 + `"}`), attest.CheckDigest, "only md5"},
		{"sha1 and gitBlob only", withDigests(`{"sha1":"` + sha1 + `","gitBlob":"` + sha1 + `"}`), attest.CheckDigest, "only gitBlob, sha1"},
		{"an unknown algorithm only", withDigests(`{"blake9":"` + shaA + `"}`), attest.CheckDigest, "only blake9"},
		{"an algorithm in capitals", withDigests(`{"SHA256":"` + shaA + `"}`), attest.CheckDigest, "only SHA256"},
		{"capital hex", withDigests(`{"sha256":"` + strings.ToUpper(shaA) + `"}`), attest.CheckDigest, "lower-case hex"},
		{"a short digest", withDigests(`{"sha256":"` + shaA[:63] + `"}`), attest.CheckDigest, "[64]"},
		{"a long digest", withDigests(`{"sha256":"` + shaA + `00"}`), attest.CheckDigest, "[64]"},
		{"a digest with its algorithm in it", withDigests(`{"sha256":"sha256:` + shaA + `"}`), attest.CheckDigest, "[64]"},
		{"a malformed weak digest beside a strong one", withDigests(`{"sha256":"` + shaA + `","gitBlob":"xyz"}`), attest.CheckDigest, "/subject/0/digest/gitBlob"},
		{"contradicting second digests of the same bytes", withSubjects(`[{"name":"a","digest":{"sha256":"` + shaA + `","gitBlob":"` + sha1 + `"}},{"name":"b","digest":{"sha256":"` + shaA + `","gitBlob":"` + strings.Repeat("1f", 20) + `"}}]`), attest.CheckDigest, "contradicts /subject/0"},
		{"a digest that is a number", withDigests(`{"sha256":7}`), attest.CheckStatement, "invalid value"},

		{"a duplicate digest", withDigests(`{"sha256":"` + shaA + `","sha256":"` + shaB + `"}`), attest.CheckStatement, `at /subject/0/digest: got the key "sha256" twice`},
		{"a duplicate key deep in the predicate", withPredicate("https://example.org/x", `{"a":[{"b":1,"b":2}]}`), attest.CheckStatement, "at /predicate/a/0"},
		{"a duplicate key in another escape", withPredicate("https://example.org/x", `{"a":1,"\u0061":2}`), attest.CheckStatement, `"a" twice`},
		{"two cases of one key", withPredicate("https://example.org/x", `{"verdict":1,"Verdict":2}`), attest.CheckStatement, "more than case"},
		{"wrongly cased subject", strings.Replace(good, `"subject"`, `"Subject"`, 1), attest.CheckStatement, `want "subject"`},
		{"wrongly cased predicateType", strings.Replace(good, `"predicateType"`, `"predicatetype"`, 1), attest.CheckStatement, `want "predicateType"`},
		{"snake_case predicate_type", strings.Replace(good, `"predicateType"`, `"predicate_type"`, 1), attest.CheckStatement, `want "predicateType"`},
		{"wrongly cased key of a subject", withSubjects(`[{"Name":"a","digest":{"sha256":"` + shaA + `"}}]`), attest.CheckStatement, `want "name"`},
		{"an unknown key", strings.Replace(good, `{"_type"`, `{"extra":1,"_type"`, 1), attest.CheckStatement, `"extra"`},
		{"a second value", good + `{}`, attest.CheckStatement, "after the value"},
		{"trailing garbage", good + `x`, attest.CheckStatement, "after the value"},
		{"cut off", good[:len(good)-2], attest.CheckStatement, "unexpected EOF"},
		{"nothing", "", attest.CheckStatement, "unexpected EOF"},
		{"invalid UTF-8", strings.Replace(good, `"name":"a"`, "\"name\":\"\xff\"", 1), attest.CheckStatement, "UTF-8"},
		{"half a surrogate pair", strings.Replace(good, `"name":"a"`, `"name":"\ud800"`, 1), attest.CheckStatement, "surrogate"},
		{"too deep", withPredicate("https://example.org/x", `{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`), attest.CheckStatement, "64 levels"},
		{"an integer that doubles cannot hold", withPredicate("https://example.org/x", `{"size":9007199254740993}`), attest.CheckStatement, "every reader"},
		{"a number beyond doubles", withPredicate("https://example.org/x", `{"size":1e400}`), attest.CheckStatement, "a double"},

		{"no predicate", strings.Replace(good, `"predicate":{},`, "", 1), attest.CheckPredicate, "/predicate"},
		{"a predicate that is no object", strings.Replace(good, `"predicate":{}`, `"predicate":[1]`, 1), attest.CheckStatement, ""},
		{"provenance without a buildType", withPredicate(attest.ProvenanceType, `{"buildDefinition":{},"runDetails":{"builder":{"id":"y"}}}`), attest.CheckPredicate, "buildType"},
		{"provenance with an unknown key", withPredicate(attest.ProvenanceType, `{"buildDefinition":{"buildType":"x","with":1},"runDetails":{"builder":{"id":"y"}}}`), attest.CheckPredicate, `"with"`},
		{"provenance with a wrongly cased key", withPredicate(attest.ProvenanceType, `{"builddefinition":{"buildType":"x"}}`), attest.CheckPredicate, `want "buildDefinition"`},
		{"provenance with a malformed dependency", withPredicate(attest.ProvenanceType, `{"buildDefinition":{"buildType":"x","resolvedDependencies":[{"name":"d","digest":{"sha256":"beef"}}]},"runDetails":{"builder":{"id":"y"}}}`), attest.CheckDigest, "resolvedDependencies/0"},
		{"a summary that neither passed nor failed", withPredicate(attest.VSAType, `{"verifier":{"id":"v"},"verificationResult":"passed"}`), attest.CheckPredicate, "PASSED or FAILED"},
		{"a test result without a result", withPredicate(attest.TestResultType, `{}`), attest.CheckPredicate, "result"},
		{"an attribute report of another shape", withPredicate(attest.SCAIType, `{"attributes":7}`), attest.CheckPredicate, "attributes"},
		{"a withdrawal without a reason", withPredicate(attest.WithdrawalType, `{"claim":"sha256:`+shaA+`","reason":""}`), attest.CheckPredicate, "reason"},
		{"a withdrawal of no claim", withPredicate(attest.WithdrawalType, `{"claim":"md5:00","reason":"x"}`), attest.CheckPredicate, "claim"},
		{"a completion with an unknown key", withPredicate(attest.CompletionType, `{"accepted":true}`), attest.CheckPredicate, "accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, predicate, err := attest.DecodeStatement([]byte(c.payload))
			wantRefused(t, err, c.check, c.words)
			if s != nil || predicate != nil {
				t.Error("a refused Statement was returned all the same")
			}
		})
	}
}

func wantRefused(t *testing.T, err error, check attest.Check, words string) {
	t.Helper()
	var refused *attest.VerificationError
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want a *attest.VerificationError for %s", err, check)
	}
	if refused.Check != check || !strings.Contains(err.Error(), words) {
		t.Errorf("refused for %s: %v\nwant %s: …%s…", refused.Check, err, check, words)
	}
}

func TestTooManySubjects(t *testing.T) {
	var b strings.Builder
	b.WriteByte('[')
	for i := range attest.MaxSubjects + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"%d","digest":{"sha256":"%s"}}`, i, shaA)
	}
	b.WriteByte(']')
	_, _, err := attest.DecodeStatement([]byte(withSubjects(b.String())))
	wantRefused(t, err, attest.CheckSize, "100001 subjects")
}

func TestStatementTooLarge(t *testing.T) {
	_, _, err := attest.DecodeStatement(make([]byte, attest.MaxPayloadBytes+1))
	wantRefused(t, err, attest.CheckSize, "at most")
}

// Encode and DecodeStatement are inverse, and one Statement has one encoding.
func TestEncodeIsCanonical(t *testing.T) {
	params, err := structpb.NewStruct(map[string]any{"z": 1.5, "a": []any{"ü", true, nil}})
	if err != nil {
		t.Fatal(err)
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: "x", ExternalParameters: params},
		RunDetails:      &provenance.RunDetails{Builder: &provenance.Builder{Id: "y"}},
	}
	s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: "a", Digest: map[string]string{"sha256": shaA}}}, attest.ProvenanceType, p)
	if err != nil {
		t.Fatal(err)
	}
	first, err := attest.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := attest.DecodeStatement(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := attest.Encode(back)
	if err != nil || string(again) != string(first) {
		t.Errorf("encode(decode(x)): %v\n got %s\nwant %s", err, again, first)
	}
}

func TestBindSubjects(t *testing.T) {
	s, _, err := attest.DecodeStatement([]byte(withSubjects(`[{"name":"a","digest":{"sha256":"` + shaA + `","gitBlob":"` + shaB[:40] + `"}},{"name":"b","digest":{"sha256":"` + shaB + `"}}]`)))
	if err != nil {
		t.Fatal(err)
	}
	type files = map[string]map[string]string
	for _, c := range []struct {
		name  string
		files files
		check attest.Check
		words string
	}{
		{"as stated", files{"a": {"sha256": shaA, "gitBlob": shaB[:40]}, "b": {"sha256": shaB}}, "", ""},
		{"names swapped", files{"a": {"sha256": shaB}, "b": {"sha256": shaA}}, attest.CheckDigest, "/subject/0/digest/sha256"},
		{"a file dropped", files{"a": {"sha256": shaA}}, attest.CheckSubject, `no file "b"`},
		{"a file too many", files{"a": {"sha256": shaA}, "b": {"sha256": shaB}, "c": {"sha256": shaB}}, attest.CheckSubject, `further file "c"`},
		{"the second digest contradicts", files{"a": {"sha256": shaA, "gitBlob": shaA[:40]}, "b": {"sha256": shaB}}, attest.CheckDigest, "gitBlob"},
		{"only a weak digest was measured", files{"a": {"gitBlob": shaB[:40]}, "b": {"sha256": shaB}}, attest.CheckDigest, "only gitBlob"},
		{"nothing was measured", files{"a": {}, "b": {"sha256": shaB}}, attest.CheckDigest, "strong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := attest.BindSubjects(s, c.files)
			if c.check == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefused(t, err, c.check, c.words)
		})
	}
}

// Whatever is accepted encodes again to something that is accepted.
func FuzzDecodeStatement(f *testing.F) {
	f.Add([]byte(withDigests(`{"sha256":"` + shaA + `"}`)))
	f.Add([]byte(withPredicate(attest.ProvenanceType, `{"buildDefinition":{"buildType":"x","resolvedDependencies":[{"name":"d","digest":{"sha256":"`+shaB+`"}}]},"runDetails":{"builder":{"id":"y"}}}`)))
	f.Add([]byte(withPredicate(attest.WithdrawalType, `{"claim":"sha256:`+shaA+`","reason":"x"}`)))
	f.Add([]byte(withDigests(`{"sha256":"` + shaA + `","sha256":"` + shaB + `"}`)))
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[[[[`))
	f.Add([]byte("{\"a\":\"\\ud800\",\"A\":1e999}"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, _, err := attest.DecodeStatement(payload)
		if err != nil {
			var refused *attest.VerificationError
			if !errors.As(err, &refused) {
				t.Fatalf("got %T %v, want *attest.VerificationError", err, err)
			}
			return
		}
		again, err := attest.Encode(s)
		if err != nil {
			t.Fatalf("accepted but not encoded: %v", err)
		}
		if _, _, err := attest.DecodeStatement(again); err != nil {
			t.Fatalf("its own encoding is refused: %v\n%s", err, again)
		}
	})
}

func FuzzOpenUnverified(f *testing.F) {
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AA=="}]}}`))
	f.Add([]byte(`{"dsseEnvelope":{"signatures":[{},{}]}}`))
	f.Add([]byte(`{"dsse_envelope":null}`))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		env, err := attest.OpenUnverified(bundle)
		if err == nil && (env.PAE.Validate() != nil || len(env.Bundle.GetDsseEnvelope().GetSignatures()) != 1) {
			t.Fatalf("opened as %+v", env)
		}
		if _, _, _, _, err := attest.UnverifiedIndex(bundle); err == nil && env.PAE == "" {
			t.Fatal("indexed but not opened")
		}
	})
}
