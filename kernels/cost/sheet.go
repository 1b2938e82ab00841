// Package cost adds up what an operation on rented machines costs: hours that
// machines were allocated, disks over the whole window, bytes that left, each at
// a rate that somebody read somewhere on some day. It is a planning estimate and
// no invoice.
//
// It is no verification kernel and ends in no report: no policy can name it, so
// that a cheaper run never counts for a better model. All arithmetic is exact
// (math/big.Rat); amounts are rounded only where they are shown.
package cost

import (
	"fmt"
	"math/big"
	"regexp"
	"time"
)

// PlanningMonth is the month by which monthly prices are spread over hours.
const PlanningMonth = 730 // hours

// Sheet is what a cost sheet is made from. Its schema is schemas/cost.v1.json.
// Quantities and rates are decimal numbers in strings, so that no float comes between.
type Sheet struct {
	Schema      string     `json:"schema"`
	Title       string     `json:"title"`
	Currency    string     `json:"currency"` // ISO 4217, one for all rates
	Rates       []Rate     `json:"rates"`
	Compute     []Compute  `json:"compute,omitempty"`
	Storage     []Storage  `json:"storage,omitempty"`
	Transfer    []Transfer `json:"transfer,omitempty"`
	Assumptions []string   `json:"assumptions"` // may be empty, must be there
	Exclusions  []string   `json:"exclusions"`
}

// Rate is one price as it was read.
type Rate struct {
	Name   string `json:"name"`
	Amount string `json:"amount"` // decimal, in the sheet's currency
	Per    string `json:"per"`    // hour, month (of 730 hours) or GB (10⁹ bytes)
	Source string `json:"source"`
	Date   string `json:"date"` // day on which it was read, YYYY-MM-DD
}

// Compute is one machine. Its hours are given in exactly one way.
type Compute struct {
	What      string     `json:"what"`
	Rate      string     `json:"rate,omitempty"`      // name of a rate per hour; without one the line has no price
	Hours     *Range     `json:"hours,omitempty"`     // allocated hours
	Intervals []Interval `json:"intervals,omitempty"` // in which it was allocated; they do not overlap
	// Machine is the digest by which release stages name a machine without telling
	// which it is: the intervals are those that their claims state.
	Machine string `json:"machine,omitempty"`
}

// Storage is one disk, which costs from the first to the last moment, also while
// no machine is allocated.
type Storage struct {
	What   string    `json:"what"`
	Rate   string    `json:"rate,omitempty"` // per month or hour
	Hours  *Range    `json:"hours,omitempty"`
	Window *Interval `json:"window,omitempty"`
}

// Transfer is an amount of bytes that is charged for.
type Transfer struct {
	What      string `json:"what"`
	Rate      string `json:"rate,omitempty"` // per GB
	Gigabytes *Range `json:"gigabytes,omitempty"`
	Bytes     string `json:"bytes,omitempty"` // whole number
	// Allowance is how many GB of it are free, of what is left of a monthly amount.
	Allowance *Range `json:"allowance,omitempty"`
}

// Range is a quantity between two bounds, or a known one with both alike.
type Range struct {
	Low  string `json:"low"`
	High string `json:"high"`
}

// Interval is a span of time, RFC 3339 with zone. Only the moments count, never how a zone's clock stood.
type Interval struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// decimal is what quantities may look like: no sign, no exponent, bounded.
var decimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,9})?$`)

func parse(where, s string) (*big.Rat, error) {
	if !decimal.MatchString(s) {
		return nil, fmt.Errorf("%s: got %.40q, want a decimal number such as 3.673: at most 12 digits before and 9 behind the point, no sign, no exponent", where, s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, fmt.Errorf("%s: got %q, want a decimal number", where, s)
	}
	return r, nil
}

// span is a quantity as exact bounds.
type span struct{ low, high *big.Rat }

func (r *Range) span(where string) (span, error) {
	low, err := parse(where+".low", r.Low)
	if err != nil {
		return span{}, err
	}
	high, err := parse(where+".high", r.High)
	if err != nil {
		return span{}, err
	}
	if low.Cmp(high) > 0 {
		return span{}, fmt.Errorf("%s: got low %s above high %s; exchange them", where, r.Low, r.High)
	}
	return span{low, high}, nil
}

func exactly(r *big.Rat) span { return span{r, r} }

func (s span) times(r *big.Rat) span {
	return span{new(big.Rat).Mul(s.low, r), new(big.Rat).Mul(s.high, r)}
}

func (s span) plus(o span) span {
	return span{new(big.Rat).Add(s.low, o.low), new(big.Rat).Add(s.high, o.high)}
}

// minus takes an allowance away: most of it for the low bound, least for the
// high one, and never more than there is.
func (s span) minus(free span) span {
	zero := new(big.Rat)
	low, high := new(big.Rat).Sub(s.low, free.high), new(big.Rat).Sub(s.high, free.low)
	if low.Sign() < 0 {
		low = zero
	}
	if high.Sign() < 0 {
		high = zero
	}
	return span{low, high}
}

// hours is an interval's length in hours.
func (i Interval) hours(where string) (*big.Rat, error) {
	switch {
	case i.From.IsZero() || i.To.IsZero():
		return nil, fmt.Errorf("%s: it has no start or no end; an interval that is not known is not made up", where)
	case !i.From.Before(i.To):
		return nil, fmt.Errorf("%s: got from %s to %s, want an end behind the start; check the zones", where, i.From.Format(time.RFC3339), i.To.Format(time.RFC3339))
	case i.To.Sub(i.From) > 100*365*24*time.Hour:
		return nil, fmt.Errorf("%s: got more than a hundred years", where)
	}
	return big.NewRat(int64(i.To.Sub(i.From)), int64(time.Hour)), nil
}
