package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// A number is judged by what it is known to be: exact, at least, at most, or no number.
func TestWhatANumberIsKnownToBe(t *testing.T) {
	run := &Run{Claims: []attest.Claim{{}}}
	passed, failed, undecided := schemas.Passed, schemas.Failed, schemas.Undecided
	for _, c := range []struct {
		name, compare string
		value         float64
		bound         string
		want          schemas.Verdict
		words         string
	}{
		{"below", "<=", 0.9, "", passed, "0.9 nats"},
		{"at the bound", "<=", 1, "", passed, "1 nats"},
		{"above", "<=", 1.1, "", failed, "1.1 nats"},
		{"a lower bound beyond the gate fails it", "<=", 1.1, "lower", failed, "at least 1.1 nats"},
		{"a lower bound within the gate passes nothing", "<=", 0.5, "lower", undecided, "at least 0.5 nats, which tells nothing of the rest"},
		{"a lower bound at the gate passes nothing", "<=", 1, "lower", undecided, "at least 1 nats"},
		{"a lower bound shows that a value is large enough", ">=", 1, "lower", passed, "at least 1 nats"},
		{"a lower bound that is too small shows nothing", ">=", 0.5, "lower", undecided, "at least 0.5 nats"},
		{"a lower bound is never equal", "==", 1, "lower", undecided, "at least 1 nats"},
		{"a lower bound beyond is not equal", "==", 1.1, "lower", failed, "at least 1.1 nats"},
		{"an upper bound within the gate passes it", "<=", 1, "upper", passed, "at most 1 nats"},
		{"an upper bound beyond the gate shows nothing", "<=", 2, "upper", undecided, "at most 2 nats"},
		{"an upper bound below fails a floor", ">=", 0.5, "upper", failed, "at most 0.5 nats"},
		{"an upper bound at a floor shows nothing", ">=", 1, "upper", undecided, "at most 1 nats"},
		{"an upper bound below is not equal", "==", 0.5, "upper", failed, "at most 0.5 nats"},
		{"a bound of another kind", "<=", 0.5, "roughly", undecided, `a bound of the kind "roughly"`},
		{"no number", "<=", math.NaN(), "", failed, "NaN nats"},
		{"no number, for a floor", ">=", math.NaN(), "lower", failed, "NaN nats"},
		{"no number, for equality", "==", math.NaN(), "", failed, "NaN nats"},
		{"infinite", ">=", math.Inf(1), "", failed, "+Inf nats"},
		{"infinite the other way", "<=", math.Inf(-1), "", failed, "-Inf nats"},
		{"an infinite upper bound", "<=", math.Inf(1), "upper", failed, "+Inf nats"},
	} {
		m := schemas.Metric{Name: "kl_mean", Unit: "nats", Value: c.value}
		if c.bound != "" {
			m.Identity = map[string]string{"bound": c.bound}
		}
		r := judgeGate(schemas.Gate{Name: "kl", Kernel: "divergence", Metric: "kl_mean", Unit: "nats", Compare: c.compare, Value: 1}, m, run)
		if r.Verdict != c.want || !strings.Contains(r.Got, c.words) {
			t.Errorf("%s: got %s, %s; want %s, %s", c.name, r.Verdict, r.Got, c.want, c.words)
		}
	}
}
