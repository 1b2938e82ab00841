package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// fields are the members of one JSON object by their exact names. The standard
// decoder would take a differently cased name and the last of two equal ones.
type fields map[string]json.RawMessage

func object(raw []byte) (fields, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("want a JSON object, got something else")
	}
	o := fields{}
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("JSON is broken at byte %d", dec.InputOffset())
		}
		if _, dup := o[key]; dup {
			return nil, fmt.Errorf("key %q comes twice; the answer contradicts itself", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("JSON is broken at byte %d", dec.InputOffset())
		}
		o[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("JSON ends early")
	}
	if dec.More() {
		return nil, fmt.Errorf("JSON goes on after its end at byte %d", dec.InputOffset())
	}
	return o, nil
}

// need decodes a member that must be there.
func (o fields) need(name string, into any) error {
	raw, ok := o[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	return o.may(name, into)
}

// may decodes a member that can be absent.
func (o fields) may(name string, into any) error {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: got %.40s, want another type", name, raw)
	}
	return nil
}
