package cost

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func both(s string) *Range { return &Range{s, s} }

func rates(list ...Rate) []Rate { return list }

var hourly = Rate{Name: "gpu", Amount: "3.673", Per: "hour", Source: "a price list", Date: "2026-11-01"}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// The sheet of a recorded operation that made four GGUF files on a rented GPU.
// Given by its record: 5.05 allocated hours at $3.673; two brief sessions of a
// small machine at $0.172, without their length; storage over 5.99 hours at about
// $0.105 an hour ($2.52 a day); 148.709 GB delivered; a sum of $23 to $32. Not given, and assumptions here: the disk's monthly
// price, the price of a GB and how much of it was free, the length of the sessions.
func TestTheRecordedOperation(t *testing.T) {
	s := Sheet{
		Title: "four GGUF files", Currency: "USD",
		Rates: rates(
			Rate{"a100", "3.673", "hour", "East US Linux retail, as recorded", "2026-11-01"},
			Rate{"d4", "0.172", "hour", "as recorded", "2026-11-01"},
			Rate{"disk", "76.80", "month", "1 TiB Standard SSD LRS, assumed", "2026-11-01"},
			Rate{"egress", "0.087", "GB", "internet egress, first tier, assumed", "2026-11-01"},
		),
		Compute: []Compute{
			{What: "Standard_NC24ads_A100_v4", Rate: "a100", Hours: both("5.05")},
			{What: "two brief sessions of Standard_D4as_v5", Rate: "d4", Hours: &Range{"0", "0.5"}},
		},
		Storage:     []Storage{{What: "1 TiB Standard SSD", Rate: "disk", Hours: both("5.99")}},
		Transfer:    []Transfer{{What: "delivery", Rate: "egress", Gigabytes: both("148.709"), Allowance: &Range{"0", "100"}}},
		Assumptions: []string{"the disk's monthly price", "the price of a GB", "0 to 100 GB of the monthly allowance are left", "the two sessions lasted half an hour at most"},
		Exclusions:  []string{"failed transfers and protocol overhead", "disk operations", "public addresses", "tax, discounts", "staff time"},
	}
	e, err := Work(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Line{
		{Kind: "compute", Quantity: Range{"5.05", "5.05"}, Amount: &Range{"18.548650", "18.548650"}}, // 5.05 × 3.673
		{Kind: "compute", Quantity: Range{"0", "0.5"}, Amount: &Range{"0.000000", "0.086000"}},
		{Kind: "storage", Quantity: Range{"5.99", "5.99"}, Amount: &Range{"0.630181", "0.630181"}, PerHour: "0.105205", PerDay: "2.524932"},
		{Kind: "transfer", Quantity: Range{"48.709", "148.709"}, Amount: &Range{"4.237683", "12.937683"}},
	} {
		got := e.Lines[i]
		if got.Kind != want.Kind || got.Quantity != want.Quantity || *got.Amount != *want.Amount || got.PerHour != want.PerHour || got.PerDay != want.PerDay {
			t.Errorf("line %d: got %+v (%v), want %+v (%v)", i, got, got.Amount, want, want.Amount)
		}
	}
	if e.Low != "23.416514" || e.High != "32.202514" {
		t.Errorf("got %s to %s", e.Low, e.High)
	}
	for got, want := range map[string]string{e.Low: "23", e.High: "32"} { // the record's whole dollars
		r, _ := new(big.Rat).SetString(got)
		if r.FloatString(0) != want {
			t.Errorf("got %s, want %s in whole dollars", got, want)
		}
	}
	if len(e.Unpriced) != 0 || e.Notice != Notice || len(e.Assumptions) != 4 || len(e.Exclusions) != 5 || len(e.Rates) != 4 {
		t.Errorf("got %+v", e)
	}
	// With nothing but what the record gives, the sum is open and says so.
	s.Rates, s.Compute[1].Rate, s.Storage[0].Rate, s.Transfer[0].Rate = s.Rates[:1], "", "", ""
	if e, err = Work(s); err != nil {
		t.Fatal(err)
	}
	if strings.Join(e.Unpriced, ", ") != "two brief sessions of Standard_D4as_v5, 1 TiB Standard SSD, delivery" || e.Low != "18.548650" || e.High != e.Low {
		t.Errorf("got %s to %s without %v", e.Low, e.High, e.Unpriced)
	}
}

// Half an hour is half an hour in every zone, and when clocks are set back.
func TestIntervalsAreMomentsAndNoClockFaces(t *testing.T) {
	for name, c := range map[string]struct {
		list []Interval
		want string
	}{
		"one":                          {[]Interval{{at("2026-11-30T10:00:00Z"), at("2026-11-30T15:03:00Z")}}, "5.05"},
		"two zones":                    {[]Interval{{at("2026-11-30T23:30:00+01:00"), at("2026-11-30T18:00:00-05:00")}}, "0.5"},
		"clocks set back in between":   {[]Interval{{at("2026-10-25T02:30:00+02:00"), at("2026-10-25T02:30:00+01:00")}}, "1"},
		"a gap, and out of order":      {[]Interval{{at("2026-11-30T12:00:00Z"), at("2026-11-30T13:00:00Z")}, {at("2026-11-30T10:00:00Z"), at("2026-11-30T10:15:00Z")}}, "1.25"},
		"one begins as another ends":   {[]Interval{{at("2026-11-30T10:00:00Z"), at("2026-11-30T11:00:00Z")}, {at("2026-11-30T11:00:00Z"), at("2026-11-30T12:00:00Z")}}, "2"},
		"twenty minutes, no third off": {[]Interval{{at("2026-11-30T10:00:00Z"), at("2026-11-30T10:20:00Z")}}, "0.333333333"},
	} {
		e, err := Work(Sheet{Rates: rates(hourly), Compute: []Compute{{What: "machine", Rate: "gpu", Intervals: c.list}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := e.Lines[0].Quantity; got.Low != c.want || got.High != c.want {
			t.Errorf("%s: got %v hours, want %s", name, got, c.want)
		}
	}
	// A third of an hour is exact inside: three of them are one hour's price.
	var thirds []Interval
	for i := range 3 {
		start := at("2026-11-30T10:00:00Z").Add(time.Duration(i) * time.Hour)
		thirds = append(thirds, Interval{start, start.Add(20 * time.Minute)})
	}
	e, err := Work(Sheet{Rates: rates(hourly), Compute: []Compute{{What: "machine", Rate: "gpu", Intervals: thirds}}})
	if err != nil || e.Low != "3.673000" {
		t.Errorf("%v: got %+v", err, e)
	}
}

func TestAWrongSheetIsRefused(t *testing.T) {
	ok := Compute{What: "machine", Rate: "gpu", Hours: both("1")}
	one := []Interval{{at("2026-11-30T10:00:00Z"), at("2026-11-30T11:00:00Z")}}
	for name, c := range map[string]struct {
		sheet Sheet
		want  string
	}{
		"nothing":               {Sheet{}, "nothing to add up"},
		"no such rate":          {Sheet{Compute: []Compute{ok}}, `compute[0].rate: there is no rate "gpu"`},
		"a rate for months":     {Sheet{Rates: rates(Rate{"gpu", "1", "month", "s", "2026-11-01"}), Compute: []Compute{ok}}, "is per month, want per hour"},
		"a rate for GB":         {Sheet{Rates: rates(Rate{"gpu", "1", "GB", "s", "2026-11-01"}), Storage: []Storage{{What: "disk", Rate: "gpu", Hours: both("1")}}}, "is per GB, want per month or hour"},
		"two rates of a name":   {Sheet{Rates: rates(hourly, hourly), Compute: []Compute{ok}}, `two rates "gpu"`},
		"a rate for nothing":    {Sheet{Rates: rates(hourly, Rate{"x", "1", "GB", "s", "2026-11-01"}), Compute: []Compute{ok}}, `rate "x" is used by no line`},
		"a day that is none":    {Sheet{Rates: rates(Rate{"gpu", "1", "hour", "s", "2026-02-30"}), Compute: []Compute{ok}}, "rates[0].date"},
		"a negative rate":       {Sheet{Rates: rates(Rate{"gpu", "-1", "hour", "s", "2026-11-01"}), Compute: []Compute{ok}}, "no sign"},
		"an exponent":           {Sheet{Rates: rates(Rate{"gpu", "1e9", "hour", "s", "2026-11-01"}), Compute: []Compute{ok}}, "no exponent"},
		"a fraction":            {Sheet{Rates: rates(Rate{"gpu", "1/3", "hour", "s", "2026-11-01"}), Compute: []Compute{ok}}, "decimal number"},
		"a number without end":  {Sheet{Rates: rates(Rate{"gpu", strings.Repeat("9", 1<<20), "hour", "s", "2026-11-01"}), Compute: []Compute{ok}}, "decimal number"},
		"hours and intervals":   {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Hours: both("1"), Intervals: one}}}, "one of the two"},
		"neither":               {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu"}}}, "one of the two"},
		"a machine never seen":  {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Machine: "sha256:ab"}}}, "no release of machine sha256:ab states an interval"},
		"low above high":        {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Hours: &Range{"2", "1"}}}}, "low 2 above high 1"},
		"an end before a start": {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Intervals: []Interval{{one[0].To, one[0].From}}}}}, "an end behind the start"},
		"no time at all":        {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Intervals: []Interval{{one[0].From, one[0].From}}}}}, "an end behind the start"},
		"an end not known":      {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Intervals: []Interval{{From: one[0].From}}}}}, "not made up"},
		"an hour twice":         {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Intervals: []Interval{one[0], {one[0].From.Add(time.Minute), one[0].To.Add(time.Hour)}}}}}, "allocated once at a time"},
		"a century":             {Sheet{Rates: rates(hourly), Compute: []Compute{{What: "m", Rate: "gpu", Intervals: []Interval{{one[0].From, one[0].From.AddDate(101, 0, 0)}}}}}, "hundred years"},
		"a disk without time":   {Sheet{Rates: rates(hourly), Storage: []Storage{{What: "disk", Rate: "gpu"}}}, "hours or window"},
		"bytes and GB":          {Sheet{Rates: rates(hourly), Transfer: []Transfer{{What: "t", Gigabytes: both("1"), Bytes: "1"}}}, "one of the two"},
		"half a byte":           {Sheet{Rates: rates(hourly), Transfer: []Transfer{{What: "t", Bytes: "0.5"}}}, "whole number"},
		"a line without a name": {Sheet{Rates: rates(hourly), Compute: []Compute{{Rate: "gpu", Hours: both("1")}}}, "does not say what it is"},
		"a wrong allowance":     {Sheet{Rates: rates(hourly), Transfer: []Transfer{{What: "t", Bytes: "1", Allowance: &Range{"1", "x"}}}}, "transfer[0].allowance.high"},
	} {
		e, err := Work(c.sheet)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 {
			t.Errorf("%s: got %v, %v, want %q", name, e, err, c.want)
		}
	}
}

// An allowance never pays anything out.
func TestAnAllowanceIsNeverMoreThanThereIs(t *testing.T) {
	e, err := Work(Sheet{Rates: rates(Rate{"gb", "0.087", "GB", "s", "2026-11-01"}), Transfer: []Transfer{{What: "t", Rate: "gb", Bytes: "27170000", Allowance: &Range{"0", "100"}}}})
	if err != nil || e.Low != "0.000000" || e.High != "0.002364" || e.Lines[0].Quantity != (Range{"0", "0.02717"}) {
		t.Errorf("%v: got %+v", err, e)
	}
}

// Amounts are exact to the last of their digits, whatever the numbers are: held
// against whole numbers of 10⁻⁹ units.
func TestAmountsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want big.Int // of 10⁻¹⁸ units
		var list []Compute
		var prices []Rate
		for i := range rapid.IntRange(1, 20).Draw(t, "lines") {
			price, hours := rapid.Int64Range(0, 1e15).Draw(t, "price"), rapid.Int64Range(0, 1e15).Draw(t, "hours")
			name := string(rune('a' + i))
			prices = append(prices, Rate{name, nine(price), "hour", "s", "2026-11-01"})
			list = append(list, Compute{What: name, Rate: name, Hours: both(nine(hours))})
			want.Add(&want, new(big.Int).Mul(big.NewInt(price), big.NewInt(hours)))
		}
		e, err := Work(Sheet{Rates: prices, Compute: list})
		if err != nil {
			t.Fatal(err)
		}
		// half up at the sixth digit: add half of 10¹² and cut
		half := new(big.Int).Add(&want, big.NewInt(500_000_000_000))
		micro := half.Quo(half, big.NewInt(1_000_000_000_000))
		got := strings.Replace(e.Low, ".", "", 1)
		if n, ok := new(big.Int).SetString(got, 10); !ok || n.Cmp(micro) != 0 || e.High != e.Low {
			t.Fatalf("got %s to %s, want %s millionths", e.Low, e.High, micro)
		}
	})
}

func nine(n int64) string {
	return new(big.Rat).SetFrac64(n, 1_000_000_000).FloatString(9)
}

// FuzzDecimal: whatever the text is, it is refused or the exact number that it spells.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"3.673", "0", "", ".", "1.", ".5", "-1", "+1", "1e9", "0x10", "1/3", "1_000", " 1", "999999999999.999999999", "1000000000000", "NaN", "Inf", "１"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parse("x", s)
		if err != nil {
			if len(err.Error()) > 400 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if back, ok := new(big.Rat).SetString(r.FloatString(9)); !ok || back.Cmp(r) != 0 || r.Sign() < 0 {
			t.Fatalf("%q: got %s", s, r)
		}
	})
}

// FuzzWork: whatever a sheet says, it is refused or has bounds in order, of
// amounts that are printed whole.
func FuzzWork(f *testing.F) {
	f.Add("3.673", "hour", "5.05", "5.05", "148709000000", "0", "100", int64(3600))
	f.Add("0", "month", "0", "999999999999.999999999", "1", "999999999999", "999999999999", int64(-1))
	f.Add("-1", "GB", "2", "1", "0.5", "x", "", int64(1)<<62)
	f.Fuzz(func(t *testing.T, amount, per, low, high, size, free, most string, seconds int64) {
		from := at("2026-11-30T10:00:00Z")
		list := rates(Rate{"r", amount, per, "s", "2026-11-01"}, Rate{"gb", amount, "GB", "s", "2026-11-01"})
		e, err := Work(Sheet{
			Rates:    list,
			Compute:  []Compute{{What: "m", Rate: "r", Hours: &Range{low, high}}},
			Storage:  []Storage{{What: "d", Rate: "r", Window: &Interval{from, from.Add(time.Duration(seconds))}}},
			Transfer: []Transfer{{What: "t", Rate: "gb", Bytes: size, Allowance: &Range{free, most}}},
		})
		if err != nil {
			if len(err.Error()) > 400 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		least, ok := new(big.Rat).SetString(e.Low)
		greatest, alsoOK := new(big.Rat).SetString(e.High)
		if !ok || !alsoOK || least.Sign() < 0 || least.Cmp(greatest) > 0 || len(e.Lines) != 3 {
			t.Fatalf("got %s to %s in %d lines", e.Low, e.High, len(e.Lines))
		}
	})
}
