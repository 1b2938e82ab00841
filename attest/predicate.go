package attest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	scai "github.com/in-toto/attestation/go/predicates/scai/v0"
	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
)

// checkPredicate holds the predicates of the types that we know to their
// shape. Another type is left alone: nobody here decides on it.
func checkPredicate(predicateType string, body json.RawMessage) error {
	var err error
	switch predicateType {
	case ProvenanceType:
		p := &provenance.Provenance{}
		if err = decodeProto(body, p); err == nil {
			return checkProvenance(p)
		}
	case TestResultType:
		p := &testresult.TestResult{}
		if err = decodeProto(body, p); err == nil && p.GetResult() == "" {
			return refuse(CheckPredicate, "/predicate/result", "none", "PASSED, WARNED or FAILED")
		}
	case VSAType:
		p := &vsa.VerificationSummary{}
		if err = decodeProto(body, p); err == nil {
			return checkVSA(p)
		}
	case SCAIType:
		err = decodeProto(body, &scai.AttributeReport{})
	case WithdrawalType:
		var p withdrawal
		if err = shape(body, &p); err == nil {
			return p.check()
		}
	case CompletionType:
		err = shape(body, &completion{})
	}
	if err != nil {
		return &VerificationError{Check: CheckPredicate, Where: "/predicate", Got: "another shape", Want: predicateType, Err: err}
	}
	return nil
}

func checkProvenance(p *provenance.Provenance) error {
	if p.GetBuildDefinition().GetBuildType() == "" {
		return refuse(CheckPredicate, "/predicate/buildDefinition/buildType", "none", "a type URI")
	}
	if p.GetRunDetails().GetBuilder().GetId() == "" {
		return refuse(CheckPredicate, "/predicate/runDetails/builder/id", "none", "a builder's URI")
	}
	for i, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		if err := checkDigests("/predicate/buildDefinition/resolvedDependencies/"+strconv.Itoa(i)+"/digest", d.GetDigest()); err != nil {
			return err
		}
	}
	for i, d := range p.GetRunDetails().GetByproducts() {
		if err := checkDigests("/predicate/runDetails/byproducts/"+strconv.Itoa(i)+"/digest", d.GetDigest()); err != nil {
			return err
		}
	}
	return nil
}

func checkVSA(p *vsa.VerificationSummary) error {
	if r := p.GetVerificationResult(); r != "PASSED" && r != "FAILED" {
		return refuse(CheckPredicate, "/predicate/verificationResult", fmt.Sprintf("%.40q", r), "PASSED or FAILED")
	}
	if p.GetVerifier().GetId() == "" {
		return refuse(CheckPredicate, "/predicate/verifier/id", "none", "a verifier's URI")
	}
	if err := checkDigests("/predicate/policy/digest", p.GetPolicy().GetDigest()); err != nil {
		return err
	}
	for i, a := range p.GetInputAttestations() {
		if err := checkDigests("/predicate/inputAttestations/"+strconv.Itoa(i)+"/digest", a.GetDigest()); err != nil {
			return err
		}
	}
	return nil
}

// withdrawal is the shape of [WithdrawalType]; the schemas room has its
// document type and JSON Schema.
type withdrawal struct {
	Claim     godigest.Digest `json:"claim"`
	Reason    string          `json:"reason"`
	Successor godigest.Digest `json:"successor"`
}

func (w withdrawal) check() error {
	if !sha256Digest(w.Claim) {
		return refuse(CheckPredicate, "/predicate/claim", fmt.Sprintf("%.100q", w.Claim), "sha256: and 64 lower-case hex digits")
	}
	if w.Reason == "" {
		return refuse(CheckPredicate, "/predicate/reason", "none", "why the claim is taken back")
	}
	if w.Successor != "" && !sha256Digest(w.Successor) {
		return refuse(CheckPredicate, "/predicate/successor", fmt.Sprintf("%.100q", w.Successor), "sha256: and 64 lower-case hex digits")
	}
	return nil
}

// completion is the shape of [CompletionType].
type completion struct {
	Pipeline  godigest.Digest   `json:"pipeline"`
	Policy    godigest.Digest   `json:"policy"`
	Finished  []godigest.Digest `json:"finished"`
	Delivered []struct {
		Name   string          `json:"name"`
		Digest godigest.Digest `json:"digest"`
		Size   int64           `json:"size"`
	} `json:"delivered"`
	Checkpoint string          `json:"checkpoint"`
	Compute    string          `json:"compute"`
	Record     json.RawMessage `json:"record"` // an object that the schemas room knows
}

func sha256Digest(d godigest.Digest) bool {
	return d.Validate() == nil && d.Algorithm() == godigest.SHA256
}

// shape reads JSON that passed [CheckJSON] into a struct, keys spelled exactly:
// encoding/json alone takes them in any case.
func shape(body []byte, v any) error {
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return err
	}
	if err := exactKeys(tree, reflect.TypeOf(v).Elem(), []string{"predicate"}); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func exactKeys(v any, t reflect.Type, path []string) error {
	switch v := v.(type) {
	case []any:
		for i, element := range v {
			if t.Kind() != reflect.Slice {
				break
			}
			if err := exactKeys(element, t.Elem(), append(path[:len(path):len(path)], strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			break
		}
		known := map[string]reflect.Type{}
		for i := range t.NumField() {
			known[t.Field(i).Tag.Get("json")] = t.Field(i).Type
		}
		for key, value := range v {
			field, ok := known[key]
			if !ok {
				return fmt.Errorf("at %s: got the unknown key %q", pointer(path), key)
			}
			if err := exactKeys(value, field, append(path[:len(path):len(path)], key)); err != nil {
				return err
			}
		}
	}
	return nil
}
