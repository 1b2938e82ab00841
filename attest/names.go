package attest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// decodeProto reads JSON that passed [CheckJSON] into a protobuf message. Only
// the exact JSON name of a field is taken: protojson would take the snake_case
// name as well, so that two readers could see two documents.
func decodeProto(doc []byte, m proto.Message) error {
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		return err
	}
	if err := checkNames(tree, m.ProtoReflect().Descriptor(), nil); err != nil {
		return err
	}
	return protojson.Unmarshal(doc, m)
}

func checkNames(v any, md protoreflect.MessageDescriptor, path []string) error {
	if strings.HasPrefix(string(md.FullName()), "google.protobuf.") {
		return nil // free-form objects and values with a JSON form of their own
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("at %s: got %s, want an object", pointer(path), kind(v))
	}
	for key, value := range object {
		at := append(path[:len(path):len(path)], key)
		field := md.Fields().ByJSONName(key)
		if field == nil {
			return fmt.Errorf("at %s: got the unknown key %q, want %s", pointer(path), key, wanted(md, key))
		}
		if err := checkField(value, field, at); err != nil {
			return err
		}
	}
	return nil
}

func checkField(v any, field protoreflect.FieldDescriptor, path []string) error {
	if v == nil {
		return nil // protojson reads null as absent
	}
	element := field.Message()
	if field.IsMap() {
		element = field.MapValue().Message()
	}
	if element == nil {
		if field.Kind() == protoreflect.BytesKind {
			return checkBase64(v, path)
		}
		return nil
	}
	switch {
	case field.IsMap():
		object, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("at %s: got %s, want an object", pointer(path), kind(v))
		}
		for key, value := range object {
			if err := checkNames(value, element, append(path[:len(path):len(path)], key)); err != nil {
				return err
			}
		}
	case field.IsList():
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("at %s: got %s, want an array", pointer(path), kind(v))
		}
		for i, value := range list {
			if err := checkNames(value, element, append(path[:len(path):len(path)], strconv.Itoa(i))); err != nil {
				return err
			}
		}
	default:
		return checkNames(v, element, path)
	}
	return nil
}

// checkBase64 takes base64 (RFC 4648 §4) in its one canonical form. protojson
// also takes the URL alphabet, missing padding and stray bits at the end, so
// that one signature could be written in many ways.
func checkBase64(v any, path []string) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("at %s: got %s, want a string", pointer(path), kind(v))
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return fmt.Errorf("at %s: got %.60q, want base64 with padding: %w", pointer(path), text, err)
		}
		if base64.StdEncoding.EncodedLen(len(raw)) != len(text) { // the decoder skips line ends
			return fmt.Errorf("at %s: got base64 with line ends, want none", pointer(path))
		}
	}
	return nil
}

// wanted names the key that was probably meant, else all that there are.
func wanted(md protoreflect.MessageDescriptor, key string) string {
	var names []string
	fields := md.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if strings.EqualFold(f.JSONName(), key) || f.TextName() == key {
			return strconv.Quote(f.JSONName())
		}
		names = append(names, f.JSONName())
	}
	return "one of " + strings.Join(names, ", ")
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
