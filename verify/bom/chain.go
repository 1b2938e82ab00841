// Package bom writes what verified claims say of a model file as bills of
// materials that other tools read: CycloneDX 1.6 (an ML-BOM) and SPDX 3.0.1 with
// its AI, Dataset and Build profiles.
//
// It says only what a claim says: hashes, the lineage up to the publisher's
// revision, who ran what, the licence that the publisher declares, and metrics
// with their units. What nobody measured or declared is left out, never guessed.
package bom

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Named is a file or tool by name and sha256.
type Named struct {
	Name   string
	Digest godigest.Digest
}

// Made is one artifact with the stage run that made it.
type Made struct {
	Named
	Files   []Named // of a folder, whose digest is then its manifest's
	Stage   string
	Uses    string // stage type
	Type    string // quantization or weight type, as the run's result says; or empty
	Start   time.Time
	End     time.Time
	Tools   []Named
	Inputs  []godigest.Digest // artifacts that are made in the chain too
	Signers []string          // functionaries
	Bundles []godigest.Digest // of its claims
}

// Metric is one measured number of the artifact.
type Metric struct {
	Kernel, Name, Unit string
	Value              float64
	Identity           string // what it was measured on, key=value, sorted
}

// Chain is an artifact's lineage with what was measured on it.
type Chain struct {
	Artifact     Made
	Ancestors    []Made // nearest first; the last is the publisher's snapshot
	Repository   string // owner/name
	Revision     string // 40 hexadecimal digits
	Licence      string // as the publisher declares it; empty if he declares none
	Metrics      []Metric
	Limits       []string // what did not pass, in words
	Corpora      []Named  // that it was tested on
	Architecture string   // of the file itself, set by who read it; or empty
	Tool         string   // version of the weighmaster that ran the last stage
}

// Read follows an artifact's claims, in log order, up to the publisher's
// revision. Every run on the way must have passed, by evidence objects that hash
// to their names, and must not be withdrawn by somebody who may under the policy;
// a chain with a gap is an error, and so are two makers of one artifact that
// claim different things of it.
func Read(p schemas.Policy, ev policy.Evidence, artifact godigest.Digest) (Chain, error) {
	taken, _, err := policy.Withdrawn(p, ev)
	if err != nil {
		return Chain{}, err
	}
	r := reader{objects: ev.Objects, withdrawn: taken, seen: map[godigest.Digest]bool{}}
	runs, faults := policy.Runs(ev.Claims)
	for pae, err := range faults {
		return Chain{}, fmt.Errorf("claim %s: %w", pae, err)
	}
	r.runs = runs
	if err := r.up(artifact); err != nil {
		return Chain{}, err
	}
	c := r.chain
	if c.Revision == "" {
		return Chain{}, fmt.Errorf("lineage of %s: it does not reach a publisher's revision; the claims of its first stages are missing", artifact)
	}
	c.Artifact, c.Ancestors = r.made[0], r.made[1:]
	return r.measured(c)
}

type reader struct {
	runs      []*policy.Run
	objects   map[godigest.Digest][]byte
	withdrawn map[godigest.Digest]policy.Taken
	seen      map[godigest.Digest]bool
	made      []Made // breadth first from the artifact
	chain     Chain
}

func (r *reader) up(artifact godigest.Digest) error {
	for queue := []godigest.Digest{artifact}; len(queue) > 0; queue = queue[1:] {
		d := queue[0]
		if r.seen[d] {
			continue
		}
		r.seen[d] = true
		run, err := r.maker(d)
		if err != nil {
			return err
		}
		m, err := r.describe(run, d)
		if err != nil {
			return fmt.Errorf("stage %s (claim %s): %w", run.External.Stage, run.PAE(), err)
		}
		r.made = append(r.made, m)
		queue = append(queue, m.Inputs...)
	}
	// The publisher's snapshot comes last, however short the way to it was.
	slices.SortStableFunc(r.made[1:], func(a, b Made) int { return rank(a) - rank(b) })
	return nil
}

func rank(m Made) int {
	if m.Uses == "acquire" {
		return 1
	}
	return 0
}

// maker finds the newest run that made a digest of something else.
func (r *reader) maker(d godigest.Digest) (*policy.Run, error) {
	var found *policy.Run
	for _, run := range r.runs {
		if has(run.Subjects, d) && !has(run.Inputs, d) {
			if found != nil && !sameSources(found, run) {
				return nil, fmt.Errorf("lineage of %s: the claims %s and %s make it of different things", d, found.PAE(), run.PAE())
			}
			found = run
		}
	}
	if found == nil {
		return nil, fmt.Errorf("lineage of %s: no claim says what made it", d)
	}
	if w, gone := r.withdrawn[found.PAE()]; gone {
		return nil, fmt.Errorf("lineage of %s: its claim %s was withdrawn: %s", d, found.PAE(), w.Reason)
	}
	return found, nil
}

func sameSources(a, b *policy.Run) bool {
	set := func(run *policy.Run) []string {
		list := []string{run.Uses}
		for _, in := range run.Inputs {
			list = append(list, in.Digest.String())
		}
		if p := run.External.Publisher; p != nil {
			list = append(list, p.Repository+"@"+p.Revision)
		}
		sort.Strings(list)
		return list
	}
	return slices.Equal(set(a), set(b))
}

func has(list []policy.NamedDigest, d godigest.Digest) bool {
	return slices.ContainsFunc(list, func(n policy.NamedDigest) bool { return n.Digest == d })
}

// describe reads one run of the chain: it must have passed.
func (r *reader) describe(run *policy.Run, d godigest.Digest) (Made, error) {
	var m Made
	res, err := run.Result(r.objects)
	if err != nil {
		return m, err
	}
	if res.Verdict != schemas.Passed || res.ExitStatus != 0 {
		return m, fmt.Errorf("it ended %s with exit status %d, want passed with 0", res.Verdict, res.ExitStatus)
	}
	p := &provenance.Provenance{}
	if err := protojson.Unmarshal(run.Claims[0].Predicate(), p); err != nil {
		return m, err
	}
	meta := p.GetRunDetails().GetMetadata()
	m = Made{
		Named: subject(run.Subjects, d), Stage: run.External.Stage, Uses: run.Uses, Type: res.Facts["type"],
		Start: meta.GetStartedOn().AsTime(), End: meta.GetFinishedOn().AsTime(), Files: filesOf(run.Subjects, d),
	}
	for _, dep := range p.GetBuildDefinition().GetResolvedDependencies() {
		if sum := dep.GetDigest()["sha256"]; sum != "" && strings.HasPrefix(dep.GetName(), "tool/") {
			m.Tools = append(m.Tools, Named{strings.TrimPrefix(dep.GetName(), "tool/"), godigest.NewDigestFromEncoded(godigest.SHA256, sum)})
		}
	}
	for _, in := range run.Inputs {
		m.Inputs = append(m.Inputs, in.Digest)
	}
	for _, c := range run.Claims {
		m.Signers, m.Bundles = append(m.Signers, c.Functionary()), append(m.Bundles, c.Bundle())
	}
	if r.chain.Tool == "" {
		r.chain.Tool = p.GetRunDetails().GetBuilder().GetVersion()["weighmaster"]
	}
	if run.Uses == "acquire" && run.External.Publisher != nil {
		r.chain.Repository, r.chain.Revision = run.External.Publisher.Repository, run.External.Publisher.Revision
		if l := res.Facts["licence"]; l != "absent" {
			r.chain.Licence = l
		}
	} else if len(m.Inputs) == 0 {
		return m, fmt.Errorf("it names no input and no publisher; its product comes from nowhere")
	}
	return m, nil
}

func subject(list []policy.NamedDigest, d godigest.Digest) Named {
	for _, s := range list {
		if s.Digest == d {
			return Named{path.Clean(s.Name), d}
		}
	}
	return Named{Digest: d}
}

// filesOf lists a folder's files: the folder is the subject whose name ends in a slash.
func filesOf(list []policy.NamedDigest, d godigest.Digest) []Named {
	var folder string
	for _, s := range list {
		if s.Digest == d && strings.HasSuffix(s.Name, "/") {
			folder = s.Name
		}
	}
	var files []Named
	for _, s := range list {
		if name, ok := strings.CutPrefix(s.Name, folder); ok && folder != "" && name != "" {
			files = append(files, Named{name, s.Digest})
		}
	}
	return files
}
