package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestEveryKernelFindsEveryFaultItClaims(t *testing.T) {
	reg, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(reg.List()); n < 9 {
		t.Fatalf("%d kernels are registered, want at least 9", n)
	}
	for _, k := range reg.List() {
		t.Run(k.Name, func(t *testing.T) {
			rep, err := k.SelfCheck(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := k.CheckFaults(rep.Controls); err != nil {
				t.Error(err)
			}
			if rep.Verdict != kernels.Passed || rep.Controls.Missed != 0 {
				t.Errorf("verdict %s, controls %+v", rep.Verdict, rep.Controls)
			}
			body, err := json.Marshal(rep)
			if err != nil {
				t.Fatal(err)
			}
			var read schemas.Report
			if err := schemas.DecodeJSON(schemas.ReportURI, body, &read); err != nil {
				t.Fatalf("the report does not fit its schema: %v", err)
			}
			again, err := json.Marshal(read)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(body) {
				t.Errorf("the two Report types differ:\n%s\n%s", body, again)
			}
		})
	}
}

func TestABlindedKernelIsCaught(t *testing.T) {
	k := kernels.Kernel{Name: "blind", Faults: []string{"flip"}}
	r := k.NewReport()
	r.Controls.Add(kernels.ControlResult{Name: "flip one bit", Fault: "flip", Red: false})
	if err := r.Finish(); err != nil || r.Verdict == kernels.Passed {
		t.Fatalf("a kernel that missed its control says %s, %v", r.Verdict, err)
	}
}

func TestURIsAreSpelledAlikeInEveryRoom(t *testing.T) {
	if kernels.BaseURI != schemas.BaseURI {
		t.Errorf("kernels %s, schemas %s", kernels.BaseURI, schemas.BaseURI)
	}
	for _, uri := range []string{attest.WithdrawalType, attest.CompletionType, kernels.ReportSchema} {
		if !strings.HasPrefix(uri, schemas.BaseURI) {
			t.Errorf("%s does not start with %s", uri, schemas.BaseURI)
		}
	}
	if attest.WithdrawalType != schemas.WithdrawalURI || attest.CompletionType != schemas.CompletionURI || kernels.ReportSchema != schemas.ReportURI {
		t.Error("a predicate type or schema is spelled in two ways")
	}
	if !reflect.DeepEqual([]kernels.Verdict{kernels.Passed, kernels.Failed, kernels.Undecided}, []kernels.Verdict{kernels.Verdict(schemas.Passed), kernels.Verdict(schemas.Failed), kernels.Verdict(schemas.Undecided)}) {
		t.Error("verdicts are spelled in two ways")
	}
}
