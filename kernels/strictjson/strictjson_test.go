package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/strictjson"
)

var limits = strictjson.Limits{Depth: 4, Members: 3, Elements: 5}

func TestCheck(t *testing.T) {
	for _, x := range []struct{ body, want string }{
		{`{"a": [1, 2.5e3, null, true, "\u00e9\ud83d\ude00"]}`, ""},
		{" [] \n", ""},
		{`"\\ud800"`, ""}, // an escaped backslash, then letters
		{`{"a": 1, "a": 1}`, `$: got the field "a" twice`},
		{`{"b": {"a": 1, "\u0061": 2}}`, `$.b: got the field "a" twice`},
		{"\"\xff\"", "not UTF-8"},
		{`"\ud800"`, "byte 1: got half of a surrogate pair"},
		{`"\ude00\ud83d"`, "byte 1: got half of a surrogate pair"},
		{`{"a": [1, -1e999]}`, "$.a: got the number -1e999"},
		{`[1.7976931348623157e308, 1e-999, 18446744073709551616]`, ""},
		{`[[[[[1]]]]]`, "nested deeper than 4"},
		{`[1,2,3,4,5,6]`, "$: got more than 5 members"},
		{`{"a":{"a":1,"b":2,"c":3,"d":4}}`, "$.a: got more than 3 members"},
		{`{} {}`, "byte 4: got text after the value"},
		{`{"a":`, "EOF"},
		{``, "EOF"},
		{`{"a" 1}`, "invalid character"},
	} {
		err := strictjson.Check([]byte(x.body), limits)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: got %v, want %q", x.body, err, x.want)
		}
	}
}

// FuzzCheck: whatever passes is JSON that encoding/json reads, with no name twice at the top.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,"\ud83d\ude00"]}}`, `{"a":1,"a":2}`, `"\ud800"`, strings.Repeat("[", 50), "\xff", `{"a":`, `1e999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if strictjson.Check(body, strictjson.Limits{Depth: 32, Members: 1 << 10, Elements: 1 << 10}) != nil {
			return
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("passed %q, which encoding/json refuses: %v", body, err)
		}
	})
}
