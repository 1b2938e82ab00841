package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

// Builder says who runs the stages: the weighmaster binary itself.
type Builder struct {
	Version string
	Digest  godigest.Digest // sha256 of the running binary
}

const builderID = schemas.BaseURI + "builder/local"

// record is one finished run, ready to be stated.
type record struct {
	decl       schemas.StageDecl
	external   schemas.ExternalParameters
	inputs     map[string]Artifact
	outcome    *Outcome
	invocation string
	start, end time.Time
}

// provenance states a run as SLSA provenance v1. Reports and the result go into
// the evidence store first, so that the Statement names what exists.
func (b Builder) provenance(ctx context.Context, rec record, objects Objects) (*attest.Statement, error) {
	byproducts, err := b.byproducts(ctx, rec, objects)
	if err != nil {
		return nil, err
	}
	external, err := toStruct(rec.external)
	if err != nil {
		return nil, fmt.Errorf("stage %s: external parameters: %w", rec.decl.Name, err)
	}
	internal, err := toStruct(rec.outcome.Internal)
	if err != nil {
		return nil, fmt.Errorf("stage %s: internal parameters: %w", rec.decl.Name, err)
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:            schemas.BuildType(rec.decl.Uses),
			ExternalParameters:   external,
			InternalParameters:   internal,
			ResolvedDependencies: b.dependencies(rec),
		},
		RunDetails: &provenance.RunDetails{
			Builder:    &provenance.Builder{Id: builderID, Version: map[string]string{"weighmaster": b.Version}},
			Metadata:   &provenance.BuildMetadata{InvocationId: rec.invocation, StartedOn: timestamppb.New(rec.start), FinishedOn: timestamppb.New(rec.end)},
			Byproducts: byproducts,
		},
	}
	return attest.NewStatement(subjects(rec.outcome.Output, byproducts), attest.ProvenanceType, p)
}

// byproducts stores the reports and the result, and describes every evidence object.
func (b Builder) byproducts(ctx context.Context, rec record, objects Objects) ([]*attest.ResourceDescriptor, error) {
	var list []*attest.ResourceDescriptor
	for _, rep := range rec.outcome.Reports {
		rep.Inputs = append(reportInputs(rec.inputs), rep.Inputs...)
		summary := map[string]any{
			"kernel": rep.Kernel, "version": rep.Version, "verdict": string(rep.Verdict), "findings": len(rep.Findings) + rep.FindingsOmitted,
			"controlsPlanted": rep.Controls.Planted, "controlsRed": rep.Controls.Red, "controlsMissed": rep.Controls.Missed,
		}
		d, err := putJSON(ctx, objects, "report/"+rep.Kernel, rep, summary)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	o := rec.outcome
	facts := o.Facts
	if facts == nil {
		facts = map[string]string{}
	}
	result := schemas.Result{Schema: schemas.ResultURI, Stage: rec.decl.Name, Uses: rec.decl.Uses, Verdict: o.Verdict, ExitStatus: o.ExitStatus, Failure: o.Failure, Facts: facts}
	d, err := putJSON(ctx, objects, "result", result, map[string]any{"verdict": string(o.Verdict), "exitStatus": o.ExitStatus})
	if err != nil {
		return nil, err
	}
	list = append(list, d)
	for _, e := range o.Evidence {
		d := &attest.ResourceDescriptor{Name: e.Name, Digest: sha256Set(e.Digest), MediaType: e.MediaType}
		if e.Notes != nil {
			if d.Annotations, err = toStruct(e.Notes); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		list = append(list, d)
	}
	distinct(list)
	return list, nil
}

// distinct numbers the second and further objects of one name: two reports of
// one kernel are two byproducts, and subjects have names of their own.
func distinct(list []*attest.ResourceDescriptor) {
	taken := map[string]bool{}
	for _, d := range list {
		taken[d.Name] = true
	}
	seen := map[string]bool{}
	for _, d := range list {
		name := d.Name
		for n := 2; seen[name]; n++ {
			if next := fmt.Sprintf("%s-%d", d.Name, n); !taken[next] {
				name = next
			}
		}
		d.Name = name
		seen[name], taken[name] = true, true
	}
}

// reportInputs are the run's input artifacts by role: a kernel may name parts of them besides.
func reportInputs(inputs map[string]Artifact) []kernels.Input {
	list := []kernels.Input{}
	for _, role := range sortedKeys(inputs) {
		a := inputs[role]
		var size int64
		for _, f := range a.Files {
			size += f.Sums.Size
		}
		list = append(list, kernels.Input{Name: role, Digest: a.Digest, Size: size})
	}
	return list
}

// putJSON stores a document in RFC 8785 JSON and describes it.
func putJSON(ctx context.Context, objects Objects, name string, doc any, annotations map[string]any) (*attest.ResourceDescriptor, error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	digest, _, err := objects.Put(ctx, "application/json", true, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", name, err)
	}
	notes, err := toStruct(annotations)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &attest.ResourceDescriptor{Name: name, Digest: sha256Set(digest), MediaType: "application/json", Annotations: notes}, nil
}

// dependencies names every input as input/<role>, each of its files as
// input/<role>/<file>, the weighmaster binary, and what the stage resolved itself.
func (b Builder) dependencies(rec record) []*attest.ResourceDescriptor {
	var list []*attest.ResourceDescriptor
	for _, role := range sortedKeys(rec.inputs) {
		a := rec.inputs[role]
		list = append(list, &attest.ResourceDescriptor{Name: "input/" + role, Digest: sha256Set(a.Digest)})
		if a.Multi {
			for _, f := range a.Files {
				list = append(list, &attest.ResourceDescriptor{Name: "input/" + role + "/" + f.Name, Digest: fileDigests(f)})
			}
		}
	}
	list = append(list, &attest.ResourceDescriptor{Name: "tool/weighmaster", Digest: sha256Set(b.Digest)})
	for _, d := range rec.outcome.Dependencies {
		set := map[string]string{}
		if d.Digest != "" {
			set = sha256Set(d.Digest)
		}
		if d.GitOID != "" {
			set["gitCommit"] = d.GitOID
		}
		list = append(list, &attest.ResourceDescriptor{Name: d.Name, Uri: d.URI, Digest: set})
	}
	return list
}

// subjects are the output's files by name, with the manifest of a folder as one
// more named <folder>/. A run without output is about its evidence.
func subjects(out *Artifact, byproducts []*attest.ResourceDescriptor) []*attest.ResourceDescriptor {
	var list []*attest.ResourceDescriptor
	if out == nil {
		for _, b := range byproducts {
			if b.Name != samplesName && b.Name != receiptName { // those are about the machine
				list = append(list, &attest.ResourceDescriptor{Name: b.Name, Digest: b.Digest})
			}
		}
		return list
	}
	if !out.Multi {
		return []*attest.ResourceDescriptor{{Name: out.Name, Digest: fileDigests(out.Files[0])}}
	}
	list = append(list, &attest.ResourceDescriptor{Name: out.Name + "/", Digest: sha256Set(out.Digest)})
	for _, f := range out.Files {
		list = append(list, &attest.ResourceDescriptor{Name: out.Name + "/" + f.Name, Digest: fileDigests(f)})
	}
	return list
}

func fileDigests(f File) map[string]string {
	set := sha256Set(f.Sums.SHA256)
	if f.Sums.GitBlob != "" {
		set["gitBlob"] = f.Sums.GitBlob
	}
	return set
}

func sha256Set(d godigest.Digest) map[string]string {
	return map[string]string{"sha256": d.Encoded()}
}

// toStruct turns a JSON-able value into the protobuf form that predicates carry. Nil gives an empty object.
func toStruct(v any) (*structpb.Struct, error) {
	s := &structpb.Struct{}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if string(body) == "null" {
		return s, nil
	}
	return s, protojson.Unmarshal(body, s)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
