package sigstore_test

import (
	"context"
	"crypto"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// library verifies with sigstore-go and nothing of ours.
func library(t *testing.T, pub crypto.PublicKey, bundle []byte) error {
	t.Helper()
	var b sigbundle.Bundle
	if err := b.UnmarshalJSON(bundle); err != nil {
		return err
	}
	v, err := signature.LoadDefaultVerifier(pub)
	if err != nil {
		t.Fatal(err)
	}
	material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(v, time.Time{}, time.Time{}), nil
	})
	reader, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	if err != nil {
		t.Fatal(err)
	}
	_, err = reader.Verify(&b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithKey()))
	return err
}

// Everything here is well signed by a trusted key. taken tells what sigstore-go
// (with the in-toto library in it) says to it: where it takes the bundle, the
// refusal is ours alone.
func TestStricterThanTheLibrary(t *testing.T) {
	const sha = "abababababababababababababababababababababababababababababababab"
	digest := func(set string) string {
		return strings.Replace(good, `{"sha256":"`+sha+`"}`, set, 1)
	}
	subjects := func(list string) string {
		return good[:strings.Index(good, `"subject":`)] + `"subject":` + list + `}`
	}
	predicate := func(p string) string { return strings.Replace(good, `{"n":1}`, p, 1) }
	for _, c := range []struct {
		name, payload string
		taken         bool
		check         attest.Check
		words         string
	}{
		{"as it should be", good, true, "", ""},
		{"no subjects", subjects(`[]`), true, attest.CheckSubject, "no subject"},
		{"two subjects of one name", subjects(`[{"name":"a","digest":{"sha256":"` + sha + `"}},{"name":"a","digest":{"sha256":"` + strings.Repeat("cd", 32) + `"}}]`), true, attest.CheckSubject, "/subject/0 has it"},
		{"a subject without a name", subjects(`[{"digest":{"sha256":"` + sha + `"}}]`), true, attest.CheckSubject, "no name"},
		{"no digest", digest(`{}`), true, attest.CheckDigest, "no digest"},
		{"a weak digest only", digest(`{"md5":"` + sha[:32] + `"}`), true, attest.CheckDigest, "only md5"},
		{"an unknown algorithm only", digest(`{"blake9":"ab"}`), true, attest.CheckDigest, "only blake9"},
		{"capital hex", digest(`{"sha256":"` + strings.ToUpper(sha) + `"}`), true, attest.CheckDigest, "lower-case hex"},
		{"a digest one digit short", digest(`{"sha256":"` + sha[1:] + `"}`), true, attest.CheckDigest, "[64]"},
		{"a second digest that contradicts", subjects(`[{"name":"a","digest":{"sha256":"` + sha + `","sha1":"` + sha[:40] + `"}},{"name":"b","digest":{"sha256":"` + sha + `","sha1":"` + strings.Repeat("0", 40) + `"}}]`), true, attest.CheckDigest, "contradicts /subject/0"},
		{"another _type", strings.Replace(good, "Statement/v1", "Statement/v7", 1), true, attest.CheckType, "v7"},
		{"no _type", strings.Replace(good, `"_type":"https://in-toto.io/Statement/v1",`, "", 1), true, attest.CheckType, attest.StatementType},
		{"no predicateType", strings.Replace(good, `"https://example.org/said/v1"`, `""`, 1), true, attest.CheckPredicate, "predicateType"},
		{"no predicate", strings.Replace(good, `"predicate":{"n":1},`, "", 1), true, attest.CheckPredicate, "/predicate"},
		{"the snake_case name of a key", strings.Replace(good, `"predicateType"`, `"predicate_type"`, 1), true, attest.CheckStatement, `want "predicateType"`},
		{"two cases of one key in the predicate", predicate(`{"verdict":"failed","Verdict":"passed"}`), true, attest.CheckStatement, "more than case"},
		{"two keys that only Unicode folds", predicate(`{"status":1,"\u017ftatus":2}`), true, attest.CheckStatement, "more than case"},
		{"an integer that a double rounds", predicate(`{"n":9007199254740993}`), true, attest.CheckStatement, "every reader"},
		{"a number beyond a double", predicate(`{"n":1e400}`), false, attest.CheckStatement, "a double"},
		{"half of a surrogate pair", predicate(`{"n":"\ud800"}`), false, attest.CheckStatement, "surrogate"},
		{"a duplicate key", strings.Replace(good, `"predicate":`, `"predicate":{},"predicate":`, 1), false, attest.CheckStatement, `"predicate" twice`},
		{"a duplicate key in the predicate", predicate(`{"n":1,"n":2}`), false, attest.CheckStatement, `"n" twice`},
		{"a wrongly cased key", strings.Replace(good, `"subject":`, `"Subject":`, 1), false, attest.CheckStatement, `want "subject"`},
		{"a key that the specification lacks", strings.Replace(good, `{"_type"`, `{"note":1,"_type"`, 1), false, attest.CheckStatement, `"note"`},
		{"a value after the Statement", good + `{}`, false, attest.CheckStatement, "after the value"},
		{"a byte order mark", "\ufeff" + good, false, attest.CheckStatement, "invalid character"},
		{"a zero byte at the end", good + "\x00", false, attest.CheckStatement, "after the value"},
		{"a number with a plus sign", predicate(`{"n":+1}`), false, attest.CheckStatement, "invalid character"},
		{"a number with a leading zero", predicate(`{"n":01}`), false, attest.CheckStatement, "invalid character"},
		{"not a number", predicate(`{"n":NaN}`), false, attest.CheckStatement, "invalid character"},
		{"65 levels", predicate(`{"n":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`), true, attest.CheckStatement, "64 levels"},
		{"a withdrawal with keys in capitals", strings.Replace(predicate(`{"Claim":"sha256:`+sha+`","Reason":"x"}`), "https://example.org/said/v1", attest.WithdrawalType, 1), true, attest.CheckPredicate, `unknown key`},
		{"a withdrawal with a folded key", strings.Replace(predicate(`{"claim":"sha256:`+sha+`","rea\u017fon":"x"}`), "https://example.org/said/v1", attest.WithdrawalType, 1), true, attest.CheckPredicate, `unknown key`},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := newKey(t, keys.ECDSA)
			v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
			bundle := encode(t, sealed(t, key, attest.PayloadType, []byte(c.payload)))
			if err := library(t, key.Public(), bundle); (err == nil) != c.taken {
				t.Errorf("sigstore-go says %v; want it taken: %v", err, c.taken)
			}
			_, err := v.Verify(context.Background(), bundle, now)
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

// One signed envelope has one spelling in a bundle.
func TestEnvelopeSpellings(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
	envelope := func(b map[string]any) map[string]any { return b["dsseEnvelope"].(map[string]any) }
	first := func(b map[string]any) map[string]any {
		return envelope(b)["signatures"].([]any)[0].(map[string]any)
	}
	payload := good + strings.Repeat(" ", (4-len(good)%3)%3) // one byte more than whole groups: it has padding
	for base64.StdEncoding.EncodeToString([]byte(payload)) == base64.RawStdEncoding.EncodeToString([]byte(payload)) {
		payload += " "
	}
	for _, c := range []struct {
		name   string
		tamper func(map[string]any)
		taken  bool
		check  attest.Check
		words  string
	}{
		{"as it should be", func(map[string]any) {}, true, "", ""},
		{"a payload without padding", func(b map[string]any) {
			envelope(b)["payload"] = base64.RawStdEncoding.EncodeToString([]byte(payload))
		}, true, attest.CheckBundle, "at /dsseEnvelope/payload: got"},
		{"a payload with stray bits at its end", func(b map[string]any) {
			text := []byte(base64.StdEncoding.EncodeToString([]byte(payload)))
			last := strings.IndexByte(string(text), '=') - 1
			text[last]++
			envelope(b)["payload"] = string(text)
		}, true, attest.CheckBundle, "at /dsseEnvelope/payload: got"},
		{"a payload with a line end", func(b map[string]any) {
			text := base64.StdEncoding.EncodeToString([]byte(payload))
			envelope(b)["payload"] = text[:76] + "\n" + text[76:]
		}, false, attest.CheckBundle, "line ends"},
		{"a signature in the URL alphabet", func(b map[string]any) {
			first(b)["sig"] = base64.URLEncoding.EncodeToString(signatureOf(t, b))
		}, true, attest.CheckBundle, "at /dsseEnvelope/signatures/0/sig"},
		{"a signature without padding", func(b map[string]any) {
			first(b)["sig"] = strings.TrimRight(first(b)["sig"].(string), "=")
		}, true, attest.CheckBundle, "at /dsseEnvelope/signatures/0/sig"},
		{"a signature that is a number", func(b map[string]any) { first(b)["sig"] = 7 }, false, attest.CheckBundle, "got a number, want a string"},
		{"a keyid of somebody else", func(b map[string]any) { first(b)["keyid"] = "another" }, false, attest.CheckSignature, "does not verify"},
		{"an envelope and a message signature", func(b map[string]any) {
			b["messageSignature"] = map[string]any{"signature": "AAAA"}
		}, false, attest.CheckBundle, "oneof"},
		{"a key and a certificate", func(b map[string]any) {
			b["verificationMaterial"].(map[string]any)["certificate"] = map[string]any{"rawBytes": "AAAA"}
		}, false, attest.CheckBundle, "oneof"},
		{"a hundred thousand signatures", func(b map[string]any) {
			list := make([]any, 100_000)
			for i := range list {
				list[i] = map[string]any{}
			}
			envelope(b)["signatures"] = list
		}, false, attest.CheckSignatures, "100000 signatures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sealed(t, key, attest.PayloadType, []byte(payload))
			for c.name == "a signature in the URL alphabet" && !strings.ContainsAny(first(b)["sig"].(string), "+/") ||
				c.name == "a signature without padding" && !strings.HasSuffix(first(b)["sig"].(string), "=") {
				b = sealed(t, key, attest.PayloadType, []byte(payload)) // ECDSA signs anew each time
			}
			c.tamper(b)
			bundle := encode(t, b)
			if err := library(t, key.Public(), bundle); (err == nil) != c.taken {
				t.Errorf("sigstore-go says %v; want it taken: %v", err, c.taken)
			}
			_, err := v.Verify(context.Background(), bundle, now)
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
