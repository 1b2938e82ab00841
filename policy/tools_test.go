package policy_test

import (
	"slices"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// toolRefusals are refusals over a world whose tools were built for it.
func toolRefusals(t *testing.T, decision string, list []change) {
	t.Helper()
	for i := range list {
		do := list[i].do
		list[i].do = func(t *testing.T, w *policytest.World) {
			policytest.Tools(t, w)
			do(t, w)
		}
	}
	refusals(t, decision, list)
}

// onStep changes one step.
func onStep(name string, do func(*policytest.Step)) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) { do(w.Step(t, name)) }
}

func fact(step, name, value string) func(*testing.T, *policytest.World) {
	return onStep(step, func(s *policytest.Step) {
		if value == "" {
			delete(s.Result.Facts, name)
		} else {
			s.Result.Facts[name] = value
		}
	})
}

func didNotPass(s *policytest.Step) {
	s.Result = schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "it did not work", Facts: s.Result.Facts}
}

var elsewhere = godigest.FromString("from elsewhere")

func TestAChainWithBuiltToolsPasses(t *testing.T) {
	w := newWorld(t)
	policytest.Tools(t, w)
	if err := policy.Check(w.Policy); err != nil {
		t.Fatal(err)
	}
	s := w.Sign(t)
	for _, decision := range decisions {
		d := decide(t, w, s.Evidence, decision)
		if d.Verdict != schemas.Passed {
			t.Errorf("%s: %s: %v", decision, d.Verdict, d.Failures())
		}
		if decision == policy.Deliver { // requires none of the rules about tools
			continue
		}
		for _, step := range []string{"runtime-source", "runtime", "box", "scai", "vocabulary", "agreed", "matrix"} {
			if !slices.Contains(d.Claims, s.Claim(t, step).Bundle()) {
				t.Errorf("%s does not rest on %s", decision, step)
			}
		}
	}
}

// A chain in which this program did all the work needs no box and no build.
func TestAChainWithoutToolsNeedsNoBox(t *testing.T) {
	for _, side := range [][]string{nil, {"build", "patch"}} {
		w := newWorld(t)
		plain := newWorld(t)
		policytest.Tools(t, w)
		w.Steps = plain.Steps
		w.Policy.Alone = nil
		requires := w.Policy.Decisions[policy.Accept]
		requires.Requires = slices.DeleteFunc(slices.Clone(requires.Requires), func(r string) bool { return r == "alone" || r == "parity" })
		w.Policy.Decisions = map[string]schemas.DecisionRule{policy.Accept: requires}
		w.Policy.Parity, w.Policy.Released, w.Policy.Completed = nil, nil, nil
		class := w.Policy.Classes[policytest.Class]
		class.Side = side
		w.Policy.Classes[policytest.Class] = class
		// The policy's other fields about a release belong to the decisions that were left out.
		w.Policy.Notices, w.Policy.Standing = nil, nil
		d := decide(t, w, w.Sign(t).Evidence, policy.Accept)
		want := schemas.Passed
		if side != nil {
			want = schemas.Undecided // the class wants built tools: that none is named says nothing
		}
		if d.Verdict != want {
			t.Errorf("side %v: got %s, want %s: %v", side, d.Verdict, want, d.Failures())
		}
	}
}

func TestBoxed(t *testing.T) { toolRefusals(t, policy.Accept, boxedChanges()) }

func boxedChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	return []change{
		{"quantizer run outside the box", fact("q8", "box", "none"), failed, []want{{"boxed", failed, "box of q8 (quantize): failed: got none: it ran outside of any box"}}},
		{"a converter that says nothing of a box", fact("bf16", "box", ""), undecided, []want{{"boxed", undecided, "box of bf16 (convert): undecided: got it does not say in which box"}}},
		{"a build outside the box", fact("runtime", "box", "none"), failed, []want{{"boxed", failed, "box of runtime (build)"}}},
		{"another box than the policy's", fact("matrix", "box", "landlock"), failed, []want{{"boxed", failed, "box of matrix (calibrate): failed: got landlock"}}},
		{"network let in", fact("q8", "network", "admitted"), failed, []want{{"boxed", failed, "bubblewrap with the network admitted"}}},
		{"network that nobody denied", fact("q8", "network", "not enforced"), failed, []want{{"boxed", failed, "with the network not enforced"}}},
		{"network of which nothing is said", fact("q8", "network", ""), undecided, []want{{"boxed", undecided, "does not say what became of the network"}}},
		{"network in the case of another", fact("q8", "network", "Denied"), failed, []want{{"boxed", failed, "with the network Denied"}}},
		{"something let in that the policy does not allow", fact("q8", "admitted", "gpu,models"), failed, []want{{"boxed", failed, "bubblewrap, with models let in"}}},
		{"no probe", drop("box"), undecided, []want{{"boxed", undecided, "probe of the box of q8 (quantize): undecided: got no isolate run"}}},
		{"a probe of another box", fact("box", "box", "landlock"), undecided, []want{{"boxed", undecided, "only isolate runs of another box, another machine or another boot"}}},
		{"a probe of another machine", fact("box", "boot", elsewhere.String()), undecided, []want{{"boxed", undecided, "another machine or another boot"}}},
		{"a tool run on another machine", fact("q8", "boot", elsewhere.String()), undecided, []want{{"boxed", undecided, "probe of the box of q8 (quantize)"}}},
		{"machines of which nothing is said", func(t *testing.T, w *policytest.World) {
			for _, name := range []string{"box", "q8"} {
				delete(w.Step(t, name).Result.Facts, "boot")
			}
		}, undecided, []want{{"boxed", undecided, "probe of the box of q8 (quantize)"}}},
		{"a probe of every box and machine but in its SCAI", func(t *testing.T, w *policytest.World) {
			for _, name := range []string{"runtime", "box", "vocabulary", "bf16", "matrix", "q8"} {
				w.Step(t, name).Result.Facts["boot"] = elsewhere.String()
			}
		}, undecided, []want{{"boxed", undecided, "NETWORK_DENIED, CANARY_UNREADABLE not shown by box (isolate)"}}},
		{"a probe of a box with less let in", fact("q8", "admitted", "gpu"), undecided, []want{{"boxed", undecided, "probe of the box of q8 (quantize)"}}},
		{"a box that another program made", fact("q8", "boxMaker", elsewhere.String()), undecided, []want{{"boxed", undecided, "only isolate runs of another box"}}},
		{"a probe that failed", onStep("box", didNotPass), failed, []want{{"boxed", failed, "box (isolate) is not signed as the policy wants, or did not pass: it did not work"}}},
		{"a probe by a stranger", onStep("box", func(s *policytest.Step) { s.By = []string{policytest.Stranger} }), undecided, []want{{"boxed", undecided, "probe of the box"}}},
		{"no SCAI", drop("scai"), undecided, []want{{"boxed", undecided, "NETWORK_DENIED, CANARY_UNREADABLE not shown by box (isolate)"}}},
		{"an attribute that was not shown", func(t *testing.T, w *policytest.World) {
			w.Step(t, "scai").State = policytest.Attributes("scai", policytest.Probes.Digest, nil, schemas.NetworkIsDenied).State
		}, undecided, []want{{"boxed", undecided, "CANARY_UNREADABLE not shown by box (isolate)"}}},
		{"an attribute of another case", func(t *testing.T, w *policytest.World) {
			w.Step(t, "scai").State = policytest.Attributes("scai", policytest.Probes.Digest, nil, schemas.NetworkIsDenied, "Canary_Unreadable").State
		}, undecided, []want{{"boxed", undecided, "CANARY_UNREADABLE not shown"}}},
		{"SCAI forged by an outsider", onStep("scai", func(s *policytest.Step) { s.By = []string{policytest.Stranger} }), undecided, []want{{"boxed", undecided, "not counted: Statements by stranger"}}},
		{"SCAI about another probe", func(t *testing.T, w *policytest.World) {
			w.Step(t, "scai").State = policytest.Attributes("scai", elsewhere, nil, schemas.NetworkIsDenied, schemas.CanaryUnreadable).State
		}, undecided, []want{{"boxed", undecided, "not shown by box (isolate)"}}},
		{"SCAI withdrawn", func(t *testing.T, w *policytest.World) {
			w.Add(t, "scai", policytest.Withdrawal("w", "scai", "the probe was wrong", policytest.Gatekeeper))
		}, undecided, []want{{"boxed", undecided, "not shown by box (isolate)"}}},
		{"a worse probe later", func(t *testing.T, w *policytest.World) {
			worse := *w.Step(t, "box")
			worse.Name = "box-again"
			didNotPass(&worse)
			w.Add(t, "scai", &worse)
		}, failed, []want{{"boxed", failed, "box-again (isolate)"}}},
		{"a worse probe later, by its own word, and earlier in the log", func(t *testing.T, w *policytest.World) {
			worse := *w.Step(t, "box")
			worse.Name, worse.At = "box-again", policytest.Now.Add(time.Minute)
			didNotPass(&worse)
			w.Add(t, "runtime", &worse)
		}, failed, []want{{"boxed", failed, "box-again (isolate)"}}},
	}
}

func TestBuilt(t *testing.T) { toolRefusals(t, policy.Accept, builtChanges()) }

func builtChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	needs := func(step string, pairs ...any) func(*testing.T, *policytest.World) {
		return onStep(step, func(s *policytest.Step) { s.Change = policytest.Needs(pairs...) })
	}
	return []change{
		{"binary swapped after the build", needs("q8", "tool/quantizer", elsewhere, "library/libtool.so", policytest.Library.Digest), failed, []want{{"built", failed, "tool/quantizer " + elsewhere.String() + ", which runtime (build) did not make"}}},
		{"library swapped", needs("q8", "tool/quantizer", policytest.Quantizer.Digest, "library/libtool.so", elsewhere), failed, []want{{"built", failed, "library/libtool.so " + elsewhere.String()}}},
		{"a calibrator of no build", needs("matrix", "tool/calibrator", elsewhere, "corpus/text.txt", policytest.Corpus), failed, []want{{"built", failed, "tools of matrix (calibrate)"}}},
		{"a script of another tree", needs("bf16", "tool/convert.py", elsewhere, "tool/python3", policytest.Python), failed, []want{{"built", failed, "tool/convert.py " + elsewhere.String() + ", which runtime-source (patch) did not make"}}},
		{"an interpreter that the policy does not name", needs("bf16", "tool/convert.py", policytest.Script.Digest, "tool/python3", elsewhere), failed, []want{{"built", failed, "tool/python3 " + elsewhere.String()}}},
		{"a run that names no tool", needs("q8"), undecided, []want{{"built", undecided, "it names no tool of runtime (build)"}}},
		{"a run with a tool and no build", onStep("q8", func(s *policytest.Step) {
			s.Inputs = slices.DeleteFunc(s.Inputs, func(i policy.NamedDigest) bool { return i.Name == "runtime" })
		}), failed, []want{{"built", failed, "tools of q8 (quantize): failed: got none of its inputs is a build"}}},
		{"a build of another patch", needs("runtime-source", "patch/tokenizer.patch", elsewhere, "source/runtime", policytest.ToolCommit), failed, []want{{"built", failed, "with patches [" + elsewhere.String() + "]"}}},
		{"a patch more", needs("runtime-source", "patch/tokenizer.patch", policytest.Patch, "patch/more.patch", elsewhere, "source/runtime", policytest.ToolCommit), failed, []want{{"built", failed, "source of runtime (build)"}}},
		{"no patch", needs("runtime-source", "source/runtime", policytest.ToolCommit), failed, []want{{"built", failed, "commit " + policytest.ToolCommit + " without a patch"}}},
		{"a build of another commit", needs("runtime-source", "patch/tokenizer.patch", policytest.Patch, "source/runtime", policytest.Revision), failed, []want{{"built", failed, "got commit " + policytest.Revision}}},
		{"a source of no commit", needs("runtime-source", "patch/tokenizer.patch", policytest.Patch), undecided, []want{{"built", undecided, "no commit is named"}}},
		{"two commits", needs("runtime-source", "source/a", policytest.ToolCommit, "source/b", policytest.Revision), failed, []want{{"built", failed, "two commits"}}},
		{"a build that failed", onStep("runtime", didNotPass), failed, []want{{"built", failed, "source of runtime (build): failed: got it is not signed as the policy wants, or did not pass"}}},
		{"a build by a stranger", onStep("runtime", func(s *policytest.Step) { s.By = []string{policytest.Stranger} }), failed, []want{{"built", failed, "source of runtime (build)"}}},
		{"a further source that the policy does not name", func(t *testing.T, w *policytest.World) {
			evil := *w.Step(t, "runtime-source")
			evil.Name, evil.Outputs = "a-tree", []policy.NamedDigest{{Name: "a-tree/", Digest: elsewhere}}
			evil.Change = policytest.Needs("source/runtime", policytest.Revision)
			w.Add(t, "runtime-source", &evil)
			build := w.Step(t, "runtime")
			build.Inputs = append([]policy.NamedDigest{{Name: "a", Digest: elsewhere}}, build.Inputs...)
		}, failed, []want{{"built", failed, "source of runtime (build): failed: got commit " + policytest.Revision}}},
		{"any binary, with a source beside it", func(t *testing.T, w *policytest.World) {
			w.Policy.Built.Environment = []string{"unpinned"}
			q8 := w.Step(t, "q8")
			q8.Inputs = append([]policy.NamedDigest{policytest.In("a", policytest.Tree)}, q8.Inputs...)
			q8.Change = policytest.Needs("tool/quantizer", elsewhere, "library/libtool.so", policytest.Library.Digest)
		}, failed, []want{{"built", failed, "tool/quantizer " + elsewhere.String()}}},
		{"any binary, with a source in the place of the build", func(t *testing.T, w *policytest.World) {
			w.Policy.Built.Environment = []string{"unpinned"}
			q8 := w.Step(t, "q8")
			q8.Inputs = append(slices.DeleteFunc(q8.Inputs, func(i policy.NamedDigest) bool { return i.Name == "runtime" }), policytest.In("runtime", policytest.Tree))
			q8.Change = policytest.Needs("tool/quantizer", elsewhere, "tool/convert.py", policytest.Script.Digest)
		}, failed, []want{{"built", failed, "tool/quantizer " + elsewhere.String()}}},
		{"no build", drop("runtime"), failed, []want{{"built", failed, "none of its inputs is a build"}}},
		{"no patch run", drop("runtime-source"), failed, []want{{"built", undecided, "no patch run made its input source"}, {"chain", failed, "input source of runtime (build)"}}},
	}
}

func TestCalibrated(t *testing.T) { toolRefusals(t, policy.Accept, calibratedChanges()) }

func calibratedChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	binds := func(at int, d godigest.Digest) func(*testing.T, *policytest.World) {
		return edit("matrix", 0, func(r *schemas.Report) { r.Inputs[at].Digest = d })
	}
	return []change{
		{"matrix of another model", onStep("matrix", func(s *policytest.Step) { s.Inputs[0] = policytest.In("model", otherFile) }), failed, []want{
			{"chain", failed, "input model of matrix (calibrate): failed: got " + otherFile.Digest.String()}, {"calibrated", failed, "a report that binds another model"}}},
		{"a report of another model", binds(0, elsewhere), failed, []want{{"calibrated", failed, "a report that binds another model"}}},
		{"a report of another corpus", binds(1, elsewhere), failed, []want{{"calibrated", failed, "a report that binds another corpus"}}},
		{"a report of another binary", binds(2, elsewhere), failed, []want{{"calibrated", failed, "a report that binds another binary"}}},
		{"a corpus that the policy does not name", func(t *testing.T, w *policytest.World) { w.Policy.Calibrated.Corpora[0].Digest = elsewhere }, failed, []want{{"calibrated", failed, "calibration corpus: failed: got " + policytest.Corpus.String()}}},
		{"a corpus under another licence", fact("matrix", "corpus-licence", "cc-by-nc-4.0"), failed, []want{{"calibrated", failed, "under cc-by-nc-4.0"}}},
		{"a corpus that is not named", onStep("matrix", func(s *policytest.Step) {
			s.Change = policytest.Needs("tool/calibrator", policytest.Calibrator.Digest)
		}), undecided, []want{{"calibrated", undecided, "it names no corpus"}}},
		{"a further matrix, out of a build", onStep("q8", func(s *policytest.Step) {
			s.Inputs = append(s.Inputs, policytest.In("imatrix", policytest.Products))
		}), failed, []want{{"calibrated", failed, policytest.Products.Digest.String() + ", which no calibrate run made"}}},
		{"a matrix that is a candidate", onStep("matrix", didNotPass), failed, []want{{"calibrated", failed, "did not pass: a candidate"}}},
		{"a matrix without a report", onStep("matrix", func(s *policytest.Step) { s.Reports = s.Reports[1:] }), undecided, []want{{"calibrated", undecided, "no report of kernel calibration"}}},
		{"a report that did not pass", edit("matrix", 0, func(r *schemas.Report) { r.Verdict = schemas.Undecided }), undecided, []want{{"calibrated", undecided, "importance matrix of matrix (calibrate): undecided"}}},
		{"no matrix where the class takes one", onStep("q8", func(s *policytest.Step) {
			s.Inputs = slices.DeleteFunc(s.Inputs, func(i policy.NamedDigest) bool { return i.Name == "imatrix" })
		}), undecided, []want{{"calibrated", undecided, "no run of the chain took one"}}},
	}
}

func TestParity(t *testing.T) { toolRefusals(t, policy.Accept, parityChanges()) }

func parityChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	counted := func(metricName string, v float64) func(*testing.T, *policytest.World) {
		return metric("agreed", 0, metricName, func(m *schemas.Metric) { m.Value = v })
	}
	return []change{
		{"one mismatch", counted("mismatches", 1), failed, []want{{"parity", failed, "1 mismatches in 330 cases"}}},
		{"too few cases", counted("cases", 329), failed, []want{{"parity", failed, "0 mismatches in 329 cases"}}},
		{"cases that are not counted", metric("agreed", 0, "cases", nil), undecided, []want{{"parity", undecided, "not counted"}}},
		{"no parity run", drop("agreed"), undecided, []want{{"parity", undecided, "no claim about a vocabulary of this path's"}}},
		{"a vocabulary of another converter", onStep("vocabulary", func(s *policytest.Step) { s.Inputs[1] = policytest.In("converter", otherFile) }), undecided, []want{{"parity", undecided, "no claim about a vocabulary"}}},
		{"a vocabulary of another source", onStep("vocabulary", func(s *policytest.Step) { s.Inputs[0] = policytest.In("snapshot", otherFile) }), undecided, []want{{"parity", undecided, "no claim about a vocabulary"}}},
		{"a report that failed", edit("agreed", 0, func(r *schemas.Report) { r.Verdict = schemas.Failed }), failed, []want{{"parity", failed, "tokenizer parity"}}},
		{"a server in the place of the vocabulary", fact("agreed", "sides", "publisher, server"), undecided, []want{{"parity", undecided, "it compared publisher, server"}}},
		{"a vocabulary compared with itself", fact("agreed", "sides", "vocabulary, tool"), undecided, []want{{"parity", undecided, "it compared vocabulary, tool"}}},
		{"sides that are not told", fact("agreed", "sides", ""), undecided, []want{{"parity", undecided, "it compared nobody knows what"}}},
		{"a stranger's parity", onStep("agreed", func(s *policytest.Step) { s.By = []string{policytest.Stranger} }), failed, []want{{"parity", failed, "not counted: stranger"}}},
	}
}

// left has the derivation leave keys of a tokenizer to the comparison of the one that is named.
func left(t *testing.T, w *policytest.World, inReport, compared string) {
	edit("q8-derived", 0, func(r *schemas.Report) {
		m := schemas.Metric{Name: schemas.MetricTokenizerKeysLeft, Unit: "keys", Value: 2}
		if inReport != "" {
			m.Identity = map[string]string{schemas.FactTokenizer: inReport}
		}
		r.Metrics = append(r.Metrics, m)
	})(t, w)
	fact("agreed", schemas.FactTokenizer, compared)(t, w)
}

func TestKeysOfATokenizerThatWereCompared(t *testing.T) {
	w := newWorld(t)
	policytest.Tools(t, w)
	left(t, w, elsewhere.String(), elsewhere.String())
	s := w.Sign(t)
	for _, decision := range []string{policy.Accept, policy.Redistribute} {
		d := decide(t, w, s.Evidence, decision)
		if d.Verdict != schemas.Passed {
			t.Errorf("%s: %s: %v", decision, d.Verdict, d.Failures())
		}
		if !slices.ContainsFunc(d.Reasons, func(r policy.Reason) bool { return r.Rule == "parity" && r.Got == "it was compared" }) {
			t.Errorf("%s does not say that the tokenizer was compared: %v", decision, d.Reasons)
		}
	}
}

func TestKeysOfATokenizerThatWereNotCompared(t *testing.T) {
	toolRefusals(t, policy.Accept, tokenizerChanges())
}

func tokenizerChanges() []change {
	undecided := schemas.Undecided
	another := godigest.FromString("another tokenizer").String()
	lefts := func(inReport, compared string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { left(t, w, inReport, compared) }
	}
	return []change{
		{"no rule parity", func(t *testing.T, w *policytest.World) {
			left(t, w, elsewhere.String(), elsewhere.String())
			for name, d := range w.Policy.Decisions {
				d.Requires = slices.DeleteFunc(slices.Clone(d.Requires), func(r string) bool { return r == "parity" })
				w.Policy.Decisions[name] = d
			}
			w.Policy.Parity = nil
		}, undecided, []want{{"checks", undecided, "leaves keys of the tokenizer to a comparison, want the rule parity"}}},
		{"no parity run", func(t *testing.T, w *policytest.World) {
			left(t, w, elsewhere.String(), elsewhere.String())
			drop("agreed")(t, w)
		}, undecided, []want{{"parity", undecided, "no claim about a vocabulary of this path's"}, {"parity", undecided, "none was compared"}}},
		{"parity of another tokenizer", lefts(elsewhere.String(), another), undecided, []want{{"parity", undecided, "compared was " + another + ", want a comparison of tokenizer " + elsewhere.String()}}},
		{"parity that does not say of what", lefts(elsewhere.String(), ""), undecided, []want{{"parity", undecided, "none was compared"}}},
		{"a derivation that does not say of what", lefts("", elsewhere.String()), undecided, []want{{"parity", undecided, "tokenizer that the report names"}}},
		{"neither says of what", lefts("", ""), undecided, []want{{"parity", undecided, "none was compared"}}},
		{"a parity that failed", func(t *testing.T, w *policytest.World) {
			left(t, w, elsewhere.String(), elsewhere.String())
			metric("agreed", 0, "mismatches", func(m *schemas.Metric) { m.Value = 1 })(t, w)
		}, schemas.Failed, []want{{"parity", schemas.Failed, "1 mismatches"}, {"parity", undecided, "none was compared"}}},
	}
}

func TestPlacedAndAlone(t *testing.T) { toolRefusals(t, policy.Accept, placedAndAloneChanges()) }

func placedAndAloneChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	return []change{
		{"an embedding on another device", edit("matrix", 1, func(r *schemas.Report) {
			r.Metrics = append(r.Metrics, schemas.Metric{Name: "bytes/CUDA0", Unit: "bytes", Value: 7})
		}), failed, []want{{"placed", failed, "7 bytes on CUDA0"}}},
		{"no buffer listed", edit("matrix", 1, func(r *schemas.Report) { r.Metrics = []schemas.Metric{} }), undecided, []want{{"placed", undecided, "no buffer of weights is listed"}}},
		{"no placement", onStep("matrix", func(s *policytest.Step) { s.Reports = s.Reports[:1] }), undecided, []want{{"placed", undecided, "no report of kernel placement"}}},
		{"a figure beside another model", fact("q8-evaluated", schemas.FactModelServers, "1"), failed, []want{{"alone", failed, "what else ran beside q8-evaluated (evaluate): failed: got 1 model servers"}}},
		{"a receipt that does not tell", fact("q8-evaluated", schemas.FactModelServers, ""), undecided, []want{{"alone", undecided, "the receipt does not tell"}}},
	}
}

func TestReleased(t *testing.T) { toolRefusals(t, policy.Redistribute, releasedChanges()) }

func releasedChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	return []change{
		{"never released", drop("given-back"), failed, []want{{"released", undecided, "no release claim"}, {"completed", failed, "it says that no compute was rented"}}},
		{"stopped, and still paid for", fact("given-back", "state", "PowerState/stopped"), failed, []want{{"released", failed, "azure in PowerState/stopped"}}},
		{"still deallocating", onStep("given-back", func(s *policytest.Step) {
			didNotPass(s)
			s.Result.Facts["state"] = "PowerState/deallocating"
		}), failed, []want{{"released", failed, "not released: it did not work"}}},
		{"a stranger's word", onStep("given-back", func(s *policytest.Step) { s.By = []string{policytest.Stranger} }), failed, []want{{"released", undecided, "no release claim by those who may"}}},
		{"a worse word later", func(t *testing.T, w *policytest.World) {
			worse := *w.Step(t, "given-back")
			worse.Name = "looked-again"
			worse.Result.Facts = map[string]string{"compute": "azure", "state": "PowerState/running"}
			w.Add(t, "given-back", &worse)
		}, failed, []want{{"released", failed, "azure in PowerState/running"}}},
		{"a server of this machine that spoke for the provider", fact("given-back", "endpoint", "http://127.0.0.1:8080"), failed, []want{{"released", failed, "as http://127.0.0.1:8080 says"}, {"completed", failed, "as http://127.0.0.1:8080 says"}}},
		{"a provider's name in another's", fact("given-back", "endpoint", "https://management.azure.com.example.org"), failed, []want{{"released", failed, "example.org says"}}},
		{"nobody was asked", fact("given-back", "endpoint", ""), undecided, []want{{"released", undecided, "it does not say who was asked"}}},
		{"the machine was started again", seenAs("PowerState/running", "a machine"), failed, []want{{"released", failed, "last heard of by seen (observe): PowerState/running"}}},
		{"another machine is still there", seenAs("PowerState/running", "another machine"), failed, []want{{"released", failed, "rented machine " + godigest.FromString("another machine").String()}}},
		{"a completion from before a release that failed", func(t *testing.T, w *policytest.World) {
			worse := *w.Step(t, "given-back")
			worse.Name = "given-back-again"
			didNotPass(&worse)
			w.Add(t, "completion", &worse)
		}, failed, []want{{"released", failed, "not released: it did not work"}, {"completed", failed, "given-back-again (release), which is newer, did not pass"}}},
	}
}

// seenAs is a later look at a rented machine.
func seenAs(state, machine string) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) {
		w.Add(t, "given-back", &policytest.Step{Name: "seen", Uses: "observe", By: []string{policytest.Producer}, Inputs: w.Step(t, "given-back").Inputs, Result: schemas.Result{
			Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{"compute": "azure", "state": state, "machine": godigest.FromString(machine).String(), "endpoint": "https://management.azure.com"}}})
	}
}

// TestAStandInCountsWhereThePolicySaysSo shows that nothing but the policy's own word lets it.
func TestAStandInCountsWhereThePolicySaysSo(t *testing.T) {
	w := newWorld(t)
	policytest.Tools(t, w)
	w.Step(t, "given-back").Result.Facts["endpoint"] = "http://127.0.0.1:8080"
	w.Policy.Released.StandIn = true
	if d := decide(t, w, w.Sign(t).Evidence, policy.Redistribute); d.Verdict != schemas.Passed {
		t.Errorf("%s: %v", d.Verdict, d.Failures())
	}
}
