package intoto

import (
	"crypto"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"github.com/in-toto/in-toto-golang/in_toto"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
)

// Run is one stage run: materials went in, products came out. Names are
// slash-separated and relative.
type Run struct {
	Stage      string
	Materials  map[string]godigest.Digest // sha256
	Products   map[string]godigest.Digest // sha256
	Command    []string
	ByProducts map[string]any // strings and integers
}

// Runs reads the SLSA provenance among verified claims, in their order, as
// runs. Products are named <stage>/<subject>. A dependency that is the product
// of an earlier run takes that product's name, so that rules can match the
// two; any other keeps its own (input/…, tool/…, library/…).
//
// One Statement by several signers is one run. Runs whose result did not pass are
// no steps; of several that passed in one stage the newest is the step, in its
// own place in the order.
func Runs(claims []attest.Claim) ([]Run, error) {
	type candidate struct {
		stage      string
		provenance *provenance.Provenance
		claim      attest.Claim
	}
	newest := map[string]int{}
	seen := map[godigest.Digest]bool{}
	var list []candidate
	for _, c := range claims {
		if c.PredicateType() != attest.ProvenanceType || seen[c.PAE()] {
			continue
		}
		seen[c.PAE()] = true
		p := &provenance.Provenance{}
		if err := protojson.Unmarshal(c.Predicate(), p); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.PAE(), err)
		}
		stage := p.GetBuildDefinition().GetExternalParameters().GetFields()["stage"].GetStringValue()
		if stage == "" {
			return nil, fmt.Errorf("claim %s: externalParameters.stage: got none, want the stage's name", c.PAE())
		}
		if verdict, told := outcome(p, "verdict"); told && verdict.GetStringValue() != "passed" {
			continue
		}
		newest[stage] = len(list)
		list = append(list, candidate{stage, p, c})
	}
	var runs []Run
	made := map[godigest.Digest]string{}
	for i, c := range list {
		if newest[c.stage] != i {
			continue
		}
		r := newRun(c.stage, c.provenance, c.claim, made)
		for _, name := range names(r.Products) {
			made[r.Products[name]] = name
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, errors.New("got no stage run that passed among the claims; there is nothing to export")
	}
	return runs, nil
}

// outcome reads what the byproduct result notes of itself.
func outcome(p *provenance.Provenance, key string) (*structpb.Value, bool) {
	for _, b := range p.GetRunDetails().GetByproducts() {
		if v, ok := b.GetAnnotations().GetFields()[key]; ok && b.GetName() == "result" {
			return v, true
		}
	}
	return nil, false
}

func newRun(stage string, p *provenance.Provenance, c attest.Claim, made map[godigest.Digest]string) Run {
	r := Run{Stage: stage, Materials: map[string]godigest.Digest{}, Products: map[string]godigest.Digest{}, ByProducts: map[string]any{}}
	if status, told := outcome(p, "exitStatus"); told {
		r.ByProducts["return-value"] = int(status.GetNumberValue())
	}
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		if hex := d.GetDigest()["sha256"]; hex != "" {
			digest := godigest.NewDigestFromEncoded(godigest.SHA256, hex)
			name, ok := made[digest]
			if !ok {
				name = d.GetName()
			}
			r.Materials[name] = digest
		}
	}
	for _, s := range c.Statement().GetSubject() {
		if hex := s.GetDigest()["sha256"]; hex != "" {
			r.Products[stage+"/"+strings.TrimSuffix(s.GetName(), "/")] = godigest.NewDigestFromEncoded(godigest.SHA256, hex)
		}
	}
	return r
}

// ExportLink signs a run as an in-toto link. file is the name that verifiers
// look for: <stage>.<first 8 of the key id>.link.
func ExportLink(r Run, key crypto.Signer) (file string, body []byte, err error) {
	if err := checkStep(r.Stage); err != nil {
		return "", nil, err
	}
	materials, err := artifacts(r.Materials)
	if err != nil {
		return "", nil, fmt.Errorf("link %s: material %w", r.Stage, err)
	}
	products, err := artifacts(r.Products)
	if err != nil {
		return "", nil, fmt.Errorf("link %s: product %w", r.Stage, err)
	}
	link := in_toto.Link{
		Type: "link", Name: r.Stage, Materials: materials, Products: products,
		Command: append([]string{}, r.Command...), ByProducts: r.ByProducts, Environment: map[string]any{},
	}
	if link.ByProducts == nil {
		link.ByProducts = map[string]any{}
	}
	body, id, err := sign(link, key)
	if err != nil {
		return "", nil, fmt.Errorf("link %s: %w", r.Stage, err)
	}
	return fmt.Sprintf(in_toto.LinkNameFormat, r.Stage, id), body, nil
}

// checkStep keeps a step's name from becoming a path or a pattern.
func checkStep(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\*?[]") {
		return fmt.Errorf("step name: got %q, want a plain file name", name)
	}
	return nil
}

func artifacts(set map[string]godigest.Digest) (map[string]in_toto.HashObj, error) {
	out := make(map[string]in_toto.HashObj, len(set))
	for _, name := range names(set) {
		if name == "" || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "../") || name == ".." {
			return nil, fmt.Errorf("%q: want a clean relative path", name)
		}
		if d := set[name]; d.Validate() != nil || d.Algorithm() != godigest.SHA256 {
			return nil, fmt.Errorf("%s: got the digest %q, want sha256", name, d)
		}
		out[name] = in_toto.HashObj{"sha256": set[name].Encoded()}
	}
	return out, nil
}

func names(set map[string]godigest.Digest) []string {
	list := make([]string, 0, len(set))
	for name := range set {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}
