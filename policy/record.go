package policy

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// packagesName is how a run names the lock of its tool's packages.
const packagesName = "tool/python-packages"

// receiptName is the byproduct that tells what the machine was and what else ran there.
const receiptName = "receipt/machine"

// Record reads what a finished run was made of from the claims with the PAE
// digests that its completion lists, and from nothing else, so that whoever has
// these claims reads the same. Metadata of the delivered files is left empty: it
// is in no claim.
func Record(p schemas.Policy, ev Evidence, policyDigest godigest.Digest, finished []godigest.Digest, delivered []schemas.DeliveredFile) (schemas.CompletionRecord, error) {
	ev, err := ev.ordered()
	if err != nil {
		return schemas.CompletionRecord{}, err
	}
	listed := map[godigest.Digest]bool{}
	for _, pae := range finished {
		listed[pae] = true
	}
	ev.Claims = slices.DeleteFunc(slices.Clone(ev.Claims), func(c attest.Claim) bool { return !listed[c.PAE()] })
	r := recorder{
		rec:  schemas.CompletionRecord{Tools: []schemas.RecordTool{}, Boxes: []schemas.RecordBox{}, Locks: []schemas.RecordLock{}, Corpora: []schemas.RecordCorpus{}, Outputs: []schemas.RecordOutput{}, Validation: []schemas.RecordValidation{}},
		in:   &inquiry{policy: p, ev: ev, used: map[*Run]bool{}},
		seen: map[godigest.Digest]bool{},
	}
	r.in.claims = ev.Claims
	r.in.runs, _ = Runs(ev.Claims)
	slices.SortStableFunc(r.in.runs, func(a, b *Run) int { return cmp.Or(a.Finished.Compare(b.Finished), cmp.Compare(a.PAE(), b.PAE())) })
	for _, run := range r.in.runs {
		r.run(run)
	}
	for _, file := range delivered {
		r.output(p, ev, policyDigest, file)
	}
	r.rec.NotTested = notTested(r.rec)
	return r.rec, nil
}

type recorder struct {
	rec  schemas.CompletionRecord
	in   *inquiry
	seen map[godigest.Digest]bool
}

// run adds what a run is recorded for by its stage type.
func (r *recorder) run(run *Run) {
	for _, d := range run.Needs {
		if d.Name == packagesName {
			r.rec.Locks = append(r.rec.Locks, schemas.RecordLock{Claim: run.PAE(), Stage: run.External.Stage, Name: d.Name, Digest: d.Digest})
		}
	}
	switch run.Uses {
	case "acquire":
		res, _ := run.Result(r.in.ev.Objects)
		src := schemas.RecordSource{Claim: run.PAE(), Licence: orAbsent(res.Facts["licence"]), Files: []schemas.RecordFile{}}
		if pin := run.External.Publisher; pin != nil {
			src.Repository, src.Revision = pin.Repository, pin.Revision
		}
		for _, s := range run.Subjects {
			src.Files = append(src.Files, schemas.RecordFile{Name: s.Name, Digest: s.Digest})
		}
		r.rec.Source = src
	case "patch", "build":
		r.rec.Tools = append(r.rec.Tools, recordTool(run))
	case "isolate":
		r.box(run)
	case "calibrate":
		res, _ := run.Result(r.in.ev.Objects)
		for _, d := range run.Needs {
			if strings.HasPrefix(d.Name, "corpus/") {
				r.rec.Corpora = append(r.rec.Corpora, schemas.RecordCorpus{Claim: run.PAE(), Name: d.Name, Digest: d.Digest, Licence: r.corpusLicence(d.Digest, res)})
			}
		}
	}
	if len(run.reports) > 0 {
		r.rec.Validation = append(r.rec.Validation, r.validation(run))
	}
}

// corpusLicence is what the policy says of a text, or else what the run says.
func (r *recorder) corpusLicence(d godigest.Digest, res schemas.Result) string {
	if rule := r.in.policy.Calibrated; rule != nil {
		for _, c := range rule.Corpora {
			if c.Digest == d {
				return c.Licence
			}
		}
	}
	return orAbsent(res.Facts[factCorpusLicence])
}

func recordTool(run *Run) schemas.RecordTool {
	t := schemas.RecordTool{Claim: run.PAE(), Stage: run.External.Stage, Uses: run.Uses, Patches: []schemas.RecordFile{}, Inputs: recordFiles(run.Inputs), Products: []schemas.RecordFile{}}
	for _, d := range run.Needs {
		switch {
		case strings.HasPrefix(d.Name, "source/"):
			t.Commit = d.Commit
		case strings.HasPrefix(d.Name, "patch/"):
			t.Patches = append(t.Patches, schemas.RecordFile{Name: d.Name, Digest: d.Digest})
		}
	}
	for _, s := range run.Subjects {
		if run.Uses != "patch" || strings.HasSuffix(s.Name, "/") {
			t.Products = append(t.Products, schemas.RecordFile{Name: s.Name, Digest: s.Digest})
		}
	}
	return t
}

func (r *recorder) box(run *Run) {
	res, _ := run.Result(r.in.ev.Objects)
	b := schemas.RecordBox{Claim: run.PAE(), Method: orAbsent(res.Facts[schemas.FactBox]), Attributes: []string{}}
	for _, c := range r.in.claims {
		if c.PredicateType() == attest.SCAIType && slices.ContainsFunc(run.Subjects, func(s NamedDigest) bool { return s.Digest != "" && subjectHas(c, s.Digest) }) {
			for _, name := range attributes(c, res.Facts) {
				if !slices.Contains(b.Attributes, name) {
					b.Attributes = append(b.Attributes, name)
				}
			}
		}
	}
	r.rec.Boxes = append(r.rec.Boxes, b)
}

// output follows one delivered file back to the publisher.
func (r *recorder) output(p schemas.Policy, ev Evidence, policyDigest godigest.Digest, file schemas.DeliveredFile) {
	out := schemas.RecordOutput{Name: file.Name, Digest: file.Digest, Size: file.Size, Class: "absent", Steps: []schemas.RecordStep{}, TensorTypes: map[string]int64{}, Metadata: map[string]godigest.Digest{}}
	class := r.classOf(file.Digest)
	if class != "" {
		out.Class = class
	}
	rule := schemas.DecisionRule{Requires: []string{"chain"}}
	in := newInquiry(p, p.Classes[class], rule, ev, Question{Class: class, Artifact: file.Digest, Policy: policyDigest})
	for _, run := range r.in.runs {
		same := func(other *Run) bool { return other != nil && other.PAE() == run.PAE() }
		if slices.ContainsFunc(in.path, same) || slices.ContainsFunc(in.side, same) {
			out.Steps = append(out.Steps, recordStep(run))
		}
	}
	for _, run := range r.in.runs {
		if run.Uses != "derive" || !run.takes(file.Digest) {
			continue
		}
		reports, _ := run.Reports(ev.Objects)
		for _, rep := range reports {
			for _, m := range rep.Metrics {
				if typ, ok := strings.CutPrefix(m.Name, "tensors/"); ok && rep.Kernel == "derive" && m.Value > 0 {
					out.TensorTypes[typ] = int64(m.Value)
				}
			}
		}
	}
	r.rec.Outputs = append(r.rec.Outputs, out)
}

// classOf reads the class from the newest acceptance that is listed.
func (r *recorder) classOf(d godigest.Digest) string {
	class := ""
	prefix := DecisionURI(r.in.policy.Name, Accept, "")
	for _, c := range r.in.claims {
		if c.PredicateType() != attest.VSAType || !subjectHas(c, d) {
			continue
		}
		if name, ok := strings.CutPrefix(summaryURI(c), prefix); ok {
			class = name
		}
	}
	return class
}

func recordStep(run *Run) schemas.RecordStep {
	s := schemas.RecordStep{Claim: run.PAE(), Stage: run.External.Stage, Uses: run.Uses, Parameters: parameters(run), Inputs: recordFiles(run.Inputs), Tools: []schemas.RecordFile{}}
	for _, d := range run.tools() {
		s.Tools = append(s.Tools, schemas.RecordFile{Name: d.Name, Digest: d.Digest})
	}
	return s
}

func parameters(run *Run) json.RawMessage {
	if len(run.External.With) == 0 || string(run.External.With) == "null" {
		return json.RawMessage("{}")
	}
	return run.External.With
}

func recordFiles(list []NamedDigest) []schemas.RecordFile {
	files := []schemas.RecordFile{}
	for _, n := range list {
		files = append(files, schemas.RecordFile{Name: n.Name, Digest: n.Digest})
	}
	return files
}

func orAbsent(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}

// validation reads the reports of a run, as they are.
func (r *recorder) validation(run *Run) schemas.RecordValidation {
	res, _ := run.Result(r.in.ev.Objects)
	v := schemas.RecordValidation{
		Claim: run.PAE(), Stage: run.External.Stage, Uses: run.Uses, Of: recordFiles(run.Inputs), Backend: backend(run, res), Hardware: hardware(run),
		Parameters: parameters(run), Reports: []schemas.RecordReport{}, Fixtures: []schemas.RecordFixtures{}, Contexts: []int{}, Memory: memory(res),
	}
	reports, _ := run.Reports(r.in.ev.Objects)
	for _, rep := range reports {
		short := schemas.RecordReport{Kernel: rep.Kernel, Version: rep.Version, Verdict: rep.Verdict, Metrics: []schemas.Metric{}, Failures: append([]schemas.Finding{}, rep.Findings...)}
		for _, m := range rep.Metrics {
			if m.Name == "fixtures_total" || m.Name == "fixtures_passed" {
				v.Fixtures = countFixture(v.Fixtures, m)
				if n, err := strconv.Atoi(m.Identity["tokens"]); err == nil && !slices.Contains(v.Contexts, n) {
					v.Contexts = append(v.Contexts, n)
				}
				continue
			}
			short.Metrics = append(short.Metrics, m)
		}
		v.Reports = append(v.Reports, short)
	}
	slices.Sort(v.Contexts)
	return v
}

func countFixture(list []schemas.RecordFixtures, m schemas.Metric) []schemas.RecordFixtures {
	f := schemas.RecordFixtures{Kind: orAbsent(m.Identity["kind"]), Language: m.Identity["language"], Tokens: m.Identity["tokens"]}
	i := slices.IndexFunc(list, func(x schemas.RecordFixtures) bool {
		return x.Kind == f.Kind && x.Language == f.Language && x.Tokens == f.Tokens
	})
	if i < 0 {
		i, list = len(list), append(list, f)
	}
	if m.Name == "fixtures_total" {
		list[i].Total += int(m.Value)
	} else {
		list[i].Passed += int(m.Value)
	}
	return list
}

// backend is what computed: an engine that the run names, its tools, or this program.
func backend(run *Run, res schemas.Result) string {
	if engine := res.Facts["engine"]; engine != "" {
		return engine
	}
	var names []string
	for _, d := range run.tools() {
		if name, ok := strings.CutPrefix(d.Name, "tool/"); ok {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	if len(names) == 0 {
		return "weighmaster"
	}
	return strings.Join(names, ", ")
}

// hardware is what the run's receipt says of the machine, as its Statement
// repeats it; the receipt itself stays with who made it.
func hardware(run *Run) map[string]string {
	known := map[string]string{}
	for _, key := range []string{"os", "arch", "cpus", "memory", "gpus"} {
		switch v := run.receipt.GetAnnotations().GetFields()[key].AsInterface().(type) {
		case string:
			known[key] = v
		case float64:
			known[key] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return known
}

func memory(res schemas.Result) []schemas.RecordMemory {
	list := []schemas.RecordMemory{}
	for _, f := range [][2]string{{schemas.FactSampledPeakRSS, "largest sample"}, {schemas.FactHighWaterRSS, "high-water mark of one process"}} {
		if n, err := strconv.ParseInt(res.Facts[f[0]], 10, 64); err == nil && n >= 0 {
			list = append(list, schemas.RecordMemory{Scope: f[1], Bytes: n})
		}
	}
	return list
}
