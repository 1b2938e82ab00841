package schemas_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

// The rooms below this one spell the project's URIs for themselves.
func TestOneBaseURI(t *testing.T) {
	for got, want := range map[string]string{
		kernels.BaseURI:       schemas.BaseURI,
		kernels.ReportSchema:  schemas.ReportURI,
		attest.WithdrawalType: schemas.WithdrawalURI,
		attest.CompletionType: schemas.CompletionURI,
	} {
		if got != want {
			t.Errorf("got the URI %s, want %s", got, want)
		}
	}
}

// Every schema file compiles, under the URI that its name stands for.
func TestEverySchemaCompiles(t *testing.T) {
	files, err := filepath.Glob("*.v1.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("got the schema files %v, %v", files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := attest.CheckJSON(body); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		var head struct {
			ID    string `json:"$id"`
			Draft string `json:"$schema"`
			More  any    `json:"additionalProperties"`
		}
		if err := json.Unmarshal(body, &head); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if head.Draft != "https://json-schema.org/draft/2020-12/schema" || head.More != false {
			t.Errorf("%s: $schema %s, additionalProperties %v; want draft 2020-12 and false", file, head.Draft, head.More)
		}
		err = schemas.Validate(head.ID, []byte("true"))
		var invalid *schemas.InvalidError
		if !errors.As(err, &invalid) || invalid.URI != head.ID {
			t.Errorf("%s ($id %s): true gave %v, want *InvalidError: an object is wanted", file, head.ID, err)
		}
	}
}

func TestUnknownStageType(t *testing.T) {
	for _, uses := range []string{"quantise", "", "../report", "x/y"} {
		err := schemas.StageParameters(uses, nil)
		var unknown *schemas.UnknownStageError
		if !errors.As(err, &unknown) || len(unknown.Known) == 0 {
			t.Errorf("%q gave %v, want *UnknownStageError with what is known", uses, err)
		}
	}
}

func TestUnknownSchemaIsNoNetworkLoad(t *testing.T) {
	for _, uri := range []string{"https://example.org/schema/v1", schemas.BaseURI + "schema/none/v1", "file:///etc/passwd"} {
		if err := schemas.Validate(uri, []byte("{}")); err == nil {
			t.Errorf("%s: got no error", uri)
		} else if !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no schema has the URI") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
