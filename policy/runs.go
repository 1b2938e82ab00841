package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Run is one stage run as its provenance claims it: every claim of the same
// PAE, whoever signed it.
type Run struct {
	Uses     string
	External schemas.ExternalParameters
	Claims   []attest.Claim // the same Statement by different signers
	Subjects []NamedDigest
	Inputs   []NamedDigest // resolvedDependencies named input/<role> (without per-file ones)
	Needs    []Dependency  // the other resolvedDependencies: tool/…, library/…, source/…, patch/…, corpus/…
	Finished time.Time     // as the Statement says; zero when it does not
	reports  []*attest.ResourceDescriptor
	result   *attest.ResourceDescriptor
	listing  *attest.ResourceDescriptor
	receipt  *attest.ResourceDescriptor // what the machine was, and what else ran
}

// NamedDigest is a name with its sha256.
type NamedDigest struct {
	Name   string
	Digest godigest.Digest
}

// Dependency is a further thing that went into a run. Name carries the role.
type Dependency struct {
	Name   string
	Digest godigest.Digest // empty where the Statement gives no sha256
	Commit string          // git commit, of source/…
}

// PAE identifies the run's Statement.
func (r *Run) PAE() godigest.Digest { return r.Claims[0].PAE() }

func (r *Run) name() string { return fmt.Sprintf("%s (%s)", r.External.Stage, r.Uses) }

func (r *Run) makes(d godigest.Digest) bool { return hasDigest(r.Subjects, d) }

func (r *Run) takes(d godigest.Digest) bool { return hasDigest(r.Inputs, d) }

// hasDigest never finds the empty digest: two artifacts without a sha256 are not the same artifact.
func hasDigest(list []NamedDigest, d godigest.Digest) bool {
	for _, n := range list {
		if n.Digest == d && d != "" {
			return true
		}
	}
	return false
}

// Runs reads the provenance claims as stage runs, in log order, one per
// Statement. A claim whose predicate is not one of our stages gives an error in
// the second result, keyed by its PAE digest; the others stand.
func Runs(claims []attest.Claim) ([]*Run, map[godigest.Digest]error) {
	var runs []*Run
	byPAE := map[godigest.Digest]*Run{}
	faults := map[godigest.Digest]error{}
	for _, c := range claims {
		if c.PredicateType() != attest.ProvenanceType {
			continue
		}
		if run := byPAE[c.PAE()]; run != nil {
			run.Claims = append(run.Claims, c)
			continue
		}
		run, err := readRun(c)
		if err != nil {
			faults[c.PAE()] = err
			continue
		}
		byPAE[c.PAE()] = run
		runs = append(runs, run)
	}
	return runs, faults
}

func readRun(c attest.Claim) (*Run, error) {
	var p provenance.Provenance
	if err := protojson.Unmarshal(c.Predicate(), &p); err != nil {
		return nil, fmt.Errorf("provenance predicate: %w", err)
	}
	def := p.GetBuildDefinition()
	uses, ok := strings.CutPrefix(def.GetBuildType(), schemas.BaseURI+"stage/")
	uses, versioned := strings.CutSuffix(uses, "/v1")
	if !ok || !versioned {
		return nil, fmt.Errorf("buildType: got %q, want %s", def.GetBuildType(), schemas.BuildType("<stage type>"))
	}
	raw, err := protojson.Marshal(def.GetExternalParameters())
	if err != nil {
		return nil, fmt.Errorf("externalParameters: %w", err)
	}
	run := &Run{Uses: uses, Claims: []attest.Claim{c}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&run.External); err != nil {
		return nil, fmt.Errorf("externalParameters: %w", err)
	}
	if run.External.Uses != uses {
		return nil, fmt.Errorf("externalParameters.uses: got %q, want %q as in the buildType", run.External.Uses, uses)
	}
	for _, s := range c.Statement().GetSubject() {
		run.Subjects = append(run.Subjects, NamedDigest{s.GetName(), sha256Of(s)})
	}
	for _, d := range def.GetResolvedDependencies() {
		role, ok := strings.CutPrefix(d.GetName(), "input/")
		switch {
		case !ok:
			run.Needs = append(run.Needs, Dependency{d.GetName(), sha256Of(d), d.GetDigest()["gitCommit"]})
		case !strings.Contains(role, "/"):
			run.Inputs = append(run.Inputs, NamedDigest{role, sha256Of(d)})
		}
	}
	if end := p.GetRunDetails().GetMetadata().GetFinishedOn(); end.IsValid() {
		run.Finished = end.AsTime()
	}
	for _, b := range p.GetRunDetails().GetByproducts() {
		switch {
		case b.GetName() == "result" && run.result != nil, b.GetName() == listingName && run.listing != nil:
			return nil, fmt.Errorf("byproducts: got two named %s, want one: the last would hide the first", b.GetName())
		case b.GetName() == "result":
			run.result = b
		case b.GetName() == listingName:
			run.listing = b
		case b.GetName() == receiptName:
			run.receipt = b
		case strings.HasPrefix(b.GetName(), "report/"):
			run.reports = append(run.reports, b)
		}
	}
	return run, nil
}

func sha256Of(d *attest.ResourceDescriptor) godigest.Digest {
	hex, ok := d.GetDigest()["sha256"]
	if !ok {
		return ""
	}
	return godigest.NewDigestFromEncoded(godigest.SHA256, hex)
}

// object fetches an evidence object and believes it only when it hashes to its name.
func object(objects map[godigest.Digest][]byte, d *attest.ResourceDescriptor) ([]byte, error) {
	want := sha256Of(d)
	if want == "" {
		return nil, fmt.Errorf("byproduct %s has no sha256", d.GetName())
	}
	body, ok := objects[want]
	if !ok {
		return nil, fmt.Errorf("byproduct %s (%s) is not in the evidence", d.GetName(), want)
	}
	if got := godigest.FromBytes(body); got != want {
		return nil, fmt.Errorf("byproduct %s: the evidence object hashes to %s, want %s", d.GetName(), got, want)
	}
	return body, nil
}

// Result reads how the run ended.
func (r *Run) Result(objects map[godigest.Digest][]byte) (schemas.Result, error) {
	var res schemas.Result
	if r.result == nil {
		return res, fmt.Errorf("the Statement has no byproduct named result")
	}
	body, err := object(objects, r.result)
	if err != nil {
		return res, err
	}
	if err := schemas.DecodeJSON(schemas.ResultURI, body, &res); err != nil {
		return res, err
	}
	if res.Stage != r.External.Stage || res.Uses != r.Uses {
		return res, fmt.Errorf("result is of %s (%s), want %s", res.Stage, res.Uses, r.name())
	}
	return res, nil
}

// Reports reads the kernel reports of the run.
func (r *Run) Reports(objects map[godigest.Digest][]byte) ([]schemas.Report, error) {
	var list []schemas.Report
	for _, d := range r.reports {
		body, err := object(objects, d)
		if err != nil {
			return list, err
		}
		var rep schemas.Report
		if err := schemas.DecodeJSON(schemas.ReportURI, body, &rep); err != nil {
			return list, fmt.Errorf("byproduct %s: %w", d.GetName(), err)
		}
		list = append(list, rep)
	}
	return list, nil
}

// Evidence lists the digests of the run's result, its reports and the publisher's listing.
func (r *Run) Evidence() []godigest.Digest {
	var list []godigest.Digest
	for _, d := range append([]*attest.ResourceDescriptor{r.result, r.listing}, r.reports...) {
		if d != nil && sha256Of(d) != "" {
			list = append(list, sha256Of(d))
		}
	}
	return list
}
