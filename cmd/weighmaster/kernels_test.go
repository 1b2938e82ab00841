package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestEveryKernelFindsEveryFaultItClaims(t *testing.T) {
	reg, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(reg.List()); n < 12 {
		t.Fatalf("%d kernels are registered, want at least 12", n)
	}
	for _, k := range reg.List() {
		t.Run(k.Name, func(t *testing.T) {
			rep, err := k.SelfCheck(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(k.CheckFaults(rep.Controls), k.CheckGates(rep)); err != nil {
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

// TestABlindedKernelFailsTheVerb blinds the divergence kernel: its report says
// nothing of what its controls planted.
func TestABlindedKernelFailsTheVerb(t *testing.T) {
	blind := divergence.Kernel()
	seeing := blind.SelfCheck
	blind.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		r, err := seeing(ctx)
		for i := range r.Controls.Results {
			r.Controls.Results[i].Red = false
		}
		r.Controls.Red, r.Controls.Missed = 0, r.Controls.Planted
		return r, errors.Join(err, r.Finish())
	}
	reg, err := kernels.NewRegistry(digest.Kernel(), blind)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = (&app{out: &out}).checkKernels(t.Context(), reg)
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitFalse {
		t.Errorf("got %v, want exit code %d", err, exitFalse)
	}
	for _, want := range []string{"FAIL divergence", "missed: ", "2 kernels: 1 pass, 1 fail; 16 controls: 7 red as planted, 9 missed; 0 limit problems"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q", &out, want)
		}
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
