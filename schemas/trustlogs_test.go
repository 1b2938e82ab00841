package schemas_test

import (
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// TestTrustNamesEachLogOnce refuses two keys for one log.
func TestTrustNamesEachLogOnce(t *testing.T) {
	own, a, b := schemas.LogKey{Origin: "example.org/log", Key: "k"}, schemas.LogKey{Origin: "a.example/log", Key: "k"}, schemas.LogKey{Origin: "b.example/log", Key: "k"}
	for _, c := range []struct {
		name string
		logs []schemas.LogKey
		want string
	}{
		{"none", nil, ""},
		{"two", []schemas.LogKey{a, b}, ""},
		{"one twice", []schemas.LogKey{a, b, {Origin: a.Origin, Key: "another"}}, `"a.example/log" twice`},
		{"its own", []schemas.LogKey{a, {Origin: own.Origin, Key: "another"}}, `"example.org/log" twice`},
	} {
		err := schemas.Trust{Log: own, Logs: c.logs}.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
