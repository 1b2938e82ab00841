package schemas_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

func TestTheBoxIsReadStrictly(t *testing.T) {
	for doc, at := range map[string]string{
		`{}`: "",
		`{"method":"bubblewrap","admit":["gpu","network"],"roots":[{"name":"cuda-12.8","path":"/opt/cuda","write":false}]}`: "",
		`{"method":"chroot"}`:                                "/method",
		`{"admit":["everything"]}`:                           "/admit/0",
		`{"admit":["gpu","gpu"]}`:                            "/admit",
		`{"admit":"network"}`:                                "/admit",
		`{"roots":[{"name":"..","path":"/opt"}]}`:            "/roots/0/name",
		`{"roots":[{"name":"a/b","path":"/opt"}]}`:           "/roots/0/name",
		`{"roots":[{"name":"a","path":""}]}`:                 "/roots/0/path",
		`{"roots":[{"name":"a"}]}`:                           "/roots/0",
		`{"roots":[{"name":"a","path":"/opt","mode":"rw"}]}`: "/roots/0",
		`{"network":true}`:                                   "/",
	} {
		for uri, body := range map[string]string{schemas.BoxURI: doc, schemas.BuildType("isolate"): `{"box":` + doc + `}`} {
			err := schemas.Validate(uri, []byte(body))
			var invalid *schemas.InvalidError
			if at == "" && err != nil || at != "" && (!errors.As(err, &invalid) || !strings.HasSuffix(invalid.Pointer, strings.TrimSuffix(at, "/"))) {
				t.Errorf("%s of %s: got %v, want it refused at %q", body, uri, err, at)
			}
		}
	}
	for body, ok := range map[string]bool{`{"require":["NETWORK_DENIED"]}`: true, `{"require":["network"]}`: false, `{"require":[]}`: false} {
		if err := schemas.StageParameters("isolate", []byte(body)); (err == nil) != ok {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

// The schema and the Go list name the same attributes.
func TestTheAttributesOfABoxAreTheSchemas(t *testing.T) {
	body, err := os.ReadFile("stage-isolate.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Properties struct {
			Require struct {
				MaxItems int
				Items    struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	if got := doc.Properties.Require; !slices.Equal(got.Items.Enum, schemas.BoxAttributes()) || got.MaxItems != len(schemas.BoxAttributes()) {
		t.Errorf("got %v, want %v", got, schemas.BoxAttributes())
	}
}
