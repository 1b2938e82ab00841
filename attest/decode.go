package attest

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// DecodeStatement reads signed bytes as an in-toto Statement v1, once and
// strictly: [CheckJSON], no key but the specification's in its exact spelling,
// _type exactly [StatementType], a predicate type and predicate, at least one
// subject, each with its own name and a strong digest, every recognised digest
// well formed, known predicate types in their shape. predicate is the
// predicate's JSON exactly as signed. Errors are *VerificationError.
func DecodeStatement(payload []byte) (s *Statement, predicate json.RawMessage, err error) {
	if len(payload) > MaxPayloadBytes {
		return nil, nil, refuse(CheckSize, "", fmt.Sprintf("a Statement of %d bytes", len(payload)), fmt.Sprintf("at most %d", MaxPayloadBytes))
	}
	if err := CheckJSON(payload); err != nil {
		return nil, nil, &VerificationError{Check: CheckStatement, Got: "other bytes", Want: "one strict JSON object", Err: err}
	}
	var parts struct {
		Type      any             `json:"_type"`
		Predicate json.RawMessage `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &parts); err != nil {
		return nil, nil, &VerificationError{Check: CheckStatement, Got: "other JSON", Want: "an in-toto Statement", Err: err}
	}
	if parts.Type != StatementType {
		hint := ""
		if parts.Type == oldStatementType {
			hint = "sign a Statement v1; cosign attest-blob does so with --statement, not with --predicate"
		}
		return nil, nil, &VerificationError{Check: CheckType, Got: fmt.Sprintf("%.100q", fmt.Sprint(parts.Type)), Want: fmt.Sprintf("%q", StatementType), Hint: hint}
	}
	s = &Statement{}
	if err := decodeProto(payload, s); err != nil {
		return nil, nil, &VerificationError{Check: CheckStatement, Got: "other JSON", Want: "an in-toto Statement v1", Err: err}
	}
	if err := checkStatement(s, parts.Predicate); err != nil {
		return nil, nil, err
	}
	return s, parts.Predicate, nil
}

func checkStatement(s *Statement, predicate json.RawMessage) error {
	if s.GetPredicateType() == "" {
		return refuse(CheckPredicate, "/predicateType", "none", "a type URI")
	}
	if s.GetPredicate() == nil {
		return refuse(CheckPredicate, "/predicate", "none", "an object")
	}
	if err := checkSubjects(s.GetSubject()); err != nil {
		return err
	}
	if err := contradictions(s); err != nil {
		return err
	}
	return checkPredicate(s.GetPredicateType(), predicate)
}

func checkSubjects(subjects []*ResourceDescriptor) error {
	if len(subjects) == 0 {
		return refuse(CheckSubject, "/subject", "no subject", "at least one: a Statement about nothing verifies nothing")
	}
	if len(subjects) > MaxSubjects {
		return refuse(CheckSize, "/subject", fmt.Sprintf("%d subjects", len(subjects)), fmt.Sprintf("at most %d", MaxSubjects))
	}
	seen := make(map[string]int, len(subjects))
	for i, d := range subjects {
		where := "/subject/" + strconv.Itoa(i)
		name := d.GetName()
		if name == "" {
			return refuse(CheckSubject, where+"/name", "no name", "a name of its own")
		}
		if len(name) > MaxNameBytes {
			return refuse(CheckSize, where+"/name", fmt.Sprintf("%d bytes", len(name)), fmt.Sprintf("at most %d", MaxNameBytes))
		}
		if earlier, ok := seen[name]; ok {
			return refuse(CheckSubject, where+"/name", fmt.Sprintf("%q, as /subject/%d has it", name, earlier), "a name of its own")
		}
		seen[name] = i
		if err := checkDigests(where+"/digest", d.GetDigest()); err != nil {
			return err
		}
		if err := strength(where+"/digest", d.GetDigest()); err != nil {
			return err
		}
	}
	return nil
}
