package convert

import (
	"strings"
	"testing"
)

func TestTokenizerJSON(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"ids", `{"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":2,"content":"▁x","special":false},{"id":1,"content":"▁y","special":true}]}`, "0=a 1=▁y 2= x"},
		{"a list", `{"model":{"vocab":[["a",0.0],["b",-1]]}}`, "0=a 1=b"},
		{"no vocabulary", `{}`, ""},
		{"one id twice", `{"model":{"vocab":{"a":0,"b":0}}}`, `got "a" and "b" for id 0`},
		{"a list without text", `{"model":{"vocab":[[1]]}}`, "entry 0: got no text"},
		{"another form", `{"model":{"vocab":7}}`, "neither an object of ids nor a list"},
		{"no JSON", `{`, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts, err := parseTokenizerJSON([]byte(c.body))
			var parts []string
			for id := range int64(len(texts)) {
				parts = append(parts, string(rune('0'+id))+"="+texts[id])
			}
			got := strings.Join(parts, " ")
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	f.Add([]byte(`{"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":2,"content":"x","special":true}]}`))
	f.Add([]byte(`{"model":{"vocab":[["a",0.0]]}}`))
	f.Add([]byte(`{"model":{"vocab":{"a":-9223372036854775808}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		texts, err := parseTokenizerJSON(body)
		if err != nil && (texts != nil || !strings.HasPrefix(err.Error(), "tokenizer.json: ")) {
			t.Fatalf("got %d texts and %v, want none and the file's name", len(texts), err)
		}
	})
}
