package modelsigning

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/weighmaster/weighmaster/attest"
)

// jsonObject is one JSON object whose keys are read in their exact spelling;
// encoding/json alone would take any case.
type jsonObject struct {
	at   string // JSON pointer
	keys map[string]json.RawMessage
}

type field struct {
	key   string
	to    any
	might bool // be missing
}

func required(key string, to any) field { return field{key, to, false} }
func optional(key string, to any) field { return field{key, to, true} }

func object(at string, doc json.RawMessage) (jsonObject, error) {
	o := jsonObject{at: at}
	if err := json.Unmarshal(doc, &o.keys); err != nil || o.keys == nil {
		return o, refuse(attest.CheckPredicate, at, "another value", "a JSON object")
	}
	return o, nil
}

func (o jsonObject) fields(list ...field) error {
	for _, f := range list {
		doc, ok := o.keys[f.key]
		where := o.at + "/" + f.key
		switch {
		case !ok && f.might:
		case !ok:
			return refuse(attest.CheckPredicate, where, "none", "one")
		case bytes.Equal(bytes.TrimSpace(doc), []byte("null")):
			return refuse(attest.CheckPredicate, where, "null", "a value")
		default:
			if err := json.Unmarshal(doc, f.to); err != nil {
				return refuse(attest.CheckPredicate, where, fmt.Sprintf("%.60s", doc), "a value of its type")
			}
		}
	}
	return nil
}
