package schemas_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

const trustYAML = `# whose word counts
schema: https://github.com/weighmaster/weighmaster/schema/trust/v1
functionaries:
  - name: producer
    key: |
      -----BEGIN PUBLIC KEY-----
      MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
      -----END PUBLIC KEY-----
    notAfter: 2026-03-01T00:00:00Z
log: {origin: example.org/log, key: "example.org/log+0a1b2c3d+AdJz"}
`

func TestDecodeYAML(t *testing.T) {
	var trust schemas.Trust
	if err := schemas.DecodeYAML("trust.yaml", []byte(trustYAML), schemas.TrustURI, &trust); err != nil {
		t.Fatal(err)
	}
	f := trust.Functionaries[0]
	if f.Key != pemKey || !f.NotAfter.Equal(moment) || trust.Log.Origin != "example.org/log" {
		t.Errorf("read as %+v", trust)
	}
}

func TestDecodeYAMLRefuses(t *testing.T) {
	line := func(old, new string) string { return strings.Replace(trustYAML, old, new, 1) }
	for _, c := range []struct{ name, doc, want string }{
		{"an unknown key", line("    notAfter:", "    until: x\n    notAfter:"), `trust.yaml:9: schema/trust/v1: at /functionaries/0: got`},
		{"a wrongly cased key", line("    notAfter:", "    NotAfter:"), "'NotAfter' not allowed"},
		{"a duplicate key", line("log:", "schema: x\nlog:"), `trust.yaml:10:`},
		{"a duplicate key in braces", line("{origin: example.org/log,", "{origin: a, origin: b,"), "trust.yaml:10:"},
		{"an anchor", line("name: producer", "name: &n producer"), "trust.yaml:4: got an anchor"},
		{"an alias", line("name: producer", "name: *n"), "trust.yaml:4: got an alias"},
		{"a merge key", line("  - name: producer", "  - <<: {a: b}\n    name: producer"), "trust.yaml:4:"},
		{"a tag", line("name: producer", "name: !!str producer"), "trust.yaml:4: got a tag"},
		{"a second document", trustYAML + "---\n" + trustYAML, "got 2 YAML documents"},
		{"nothing", "", "want exactly one that is not empty"},
		{"only a comment", "# x\n", "want exactly one that is not empty"},
		{"a number as key", line("log:", "7: x\nlog:"), "quote it"},
		{"a complex key", line("log:", "? [a, b]\n: x\nlog:"), "invalid key"},
		{"infinity", line("name: producer", "name: .inf"), "trust.yaml:4: got a number that is not finite"},
		{"a wrong value, by its line", line("2026-03-01T00:00:00Z", "tomorrow"), `trust.yaml:9: schema/trust/v1: at /functionaries/0/notAfter: got "tomorrow"`},
		{"a list", "- a\n", "expected object"},
		{"invalid UTF-8", line("producer", "\xff"), "UTF-8"},
		{"a tab for indentation", line("  - name", "\t- name"), "trust.yaml:4:"},
		{"too large", strings.Repeat("#", schemas.MaxYAMLBytes+1), "at most"},
		{"a hundred thousand brackets", strings.Repeat("[", 100_000), "open brackets"},
		{"a hundred thousand sequences in one line", strings.Repeat("- ", 100_000), "indicators in one line"},
		{"a hundred thousand tags in one line", strings.Repeat("!a ", 80_000), "indicators in one line"},
		{"a thousand levels of blocks", nested(600), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var trust schemas.Trust
			err := schemas.DecodeYAML("trust.yaml", []byte(c.doc), schemas.TrustURI, &trust)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func nested(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// A revision of digits only is a number to YAML; it is refused, never rounded.
func TestRevisionOfDigitsOnly(t *testing.T) {
	digits := strings.Repeat("01", 20)
	doc := func(revision string) []byte {
		return fmt.Appendf(nil, "schema: %s\npublisher: {repository: o/n, revision: %s, allow: [a]}\nstages: [{name: a, uses: acquire}]\n", schemas.PipelineURI, revision)
	}
	var p schemas.Pipeline
	err := schemas.DecodeYAML("pipeline.yaml", doc(digits), schemas.PipelineURI, &p)
	if err == nil && p.Publisher.Revision != digits {
		t.Errorf("unquoted, read as %q", p.Publisher.Revision)
	}
	if err := schemas.DecodeYAML("pipeline.yaml", doc(`"`+digits+`"`), schemas.PipelineURI, &p); err != nil || p.Publisher.Revision != digits {
		t.Errorf("quoted, read as %q, %v", p.Publisher.Revision, err)
	}
	if err := schemas.DecodeYAML("pipeline.yaml", doc("1e39"), schemas.PipelineURI, &p); err == nil {
		t.Error("the number 1e39 was taken for a revision")
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"a duplicate key", `{"claim":"` + string(sum) + `","reason":"a","reason":"b"}`, `"reason" twice`},
		{"trailing data", `{"claim":"` + string(sum) + `","reason":"a"} {}`, "after the value"},
		{"a number of 400 million digits", `{"claim":1e-400000000,"reason":"a"}`, "expected string"},
		{"no JSON", `claim`, "invalid character"},
	} {
		var w schemas.Withdrawal
		if err := schemas.DecodeJSON(schemas.WithdrawalURI, []byte(c.doc), &w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// What YAML is accepted reads the same after a round through JSON.
func FuzzDecodeYAML(f *testing.F) {
	f.Add([]byte(trustYAML))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("? - : {[\n- - - !!a\n"))
	f.Add([]byte("a: |2-\n   x\n<<: b\n---\n...\n%YAML 1.1\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var trust, again schemas.Trust
		if err := schemas.DecodeYAML("trust.yaml", doc, schemas.TrustURI, &trust); err != nil {
			return
		}
		body, err := json.Marshal(trust)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas.DecodeJSON(schemas.TrustURI, body, &again); err != nil {
			t.Fatalf("accepted as YAML, refused as JSON: %v\n%s", err, body)
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	for _, d := range documents() {
		f.Add(marshal(f, d.full))
	}
	f.Add([]byte(`{"schema":"x","schema":1e999,"findings":[[[[[[`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, d := range documents() {
			if err := schemas.Validate(d.uri, doc); err == nil {
				var v any
				if err := json.Unmarshal(doc, &v); err != nil {
					t.Fatalf("%s: valid, but no JSON: %v", d.uri, err)
				}
			}
		}
		var r schemas.Report
		_ = schemas.DecodeJSON(schemas.ReportURI, doc, &r)
	})
}
