package cost

import (
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Notice stands in every estimate.
const Notice = "a planning estimate: no invoice, no maximum, and no part of any acceptance"

// Estimate is a worked-out sheet. Amounts are decimal strings, rounded half up to
// six digits behind the point; sums are of the exact amounts, not of the rounded ones.
type Estimate struct {
	Title       string   `json:"title"`
	Notice      string   `json:"notice"`
	Currency    string   `json:"currency"`
	Lines       []Line   `json:"lines"`
	Low         string   `json:"low"`      // sum of what has a price
	High        string   `json:"high"`     //
	Unpriced    []string `json:"unpriced"` // lines without a price: with any, the sums are too small
	Rates       []Rate   `json:"rates"`    // that were used, each with its source and day
	Assumptions []string `json:"assumptions"`
	Exclusions  []string `json:"exclusions"`
}

// Line is one position.
type Line struct {
	Kind     string `json:"kind"` // compute, storage, transfer
	What     string `json:"what"`
	Quantity Range  `json:"quantity"` // after an allowance
	Unit     string `json:"unit"`     // hours or GB
	Rate     string `json:"rate,omitempty"`
	Amount   *Range `json:"amount,omitempty"`  // none without a rate
	PerHour  string `json:"perHour,omitempty"` // of a disk: what it goes on costing
	PerDay   string `json:"perDay,omitempty"`
	Note     string `json:"note,omitempty"`
}

// book works a sheet out.
type book struct {
	rates map[string]Rate
	used  map[string]bool
	est   *Estimate
	sum   span
}

// Work works a sheet out. Errors name the place in the sheet.
func Work(s Sheet) (*Estimate, error) {
	b := &book{rates: map[string]Rate{}, used: map[string]bool{}, sum: exactly(new(big.Rat))}
	b.est = &Estimate{Title: s.Title, Notice: Notice, Currency: s.Currency, Lines: []Line{}, Unpriced: []string{}, Rates: []Rate{}, Assumptions: s.Assumptions, Exclusions: s.Exclusions}
	if len(s.Compute)+len(s.Storage)+len(s.Transfer) == 0 {
		return nil, fmt.Errorf("the sheet has no compute, storage or transfer: there is nothing to add up")
	}
	for i, r := range s.Rates {
		where := fmt.Sprintf("rates[%d]", i)
		if _, err := parse(where+".amount", r.Amount); err != nil {
			return nil, err
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
			return nil, fmt.Errorf("%s.date: got %.40q, want the day on which it was read, YYYY-MM-DD", where, r.Date)
		}
		if _, twice := b.rates[r.Name]; twice {
			return nil, fmt.Errorf("%s.name: there are two rates %q", where, r.Name)
		}
		b.rates[r.Name] = r
	}
	for i, c := range s.Compute {
		if err := b.compute(fmt.Sprintf("compute[%d]", i), c); err != nil {
			return nil, err
		}
	}
	for i, d := range s.Storage {
		if err := b.storage(fmt.Sprintf("storage[%d]", i), d); err != nil {
			return nil, err
		}
	}
	for i, t := range s.Transfer {
		if err := b.transfer(fmt.Sprintf("transfer[%d]", i), t); err != nil {
			return nil, err
		}
	}
	for _, r := range s.Rates {
		if !b.used[r.Name] {
			return nil, fmt.Errorf("rate %q is used by no line; leave it out, or name it where it belongs", r.Name)
		}
		b.est.Rates = append(b.est.Rates, r)
	}
	b.est.Low, b.est.High = amount(b.sum.low), amount(b.sum.high)
	return b.est, nil
}

func (b *book) compute(where string, c Compute) error {
	var q span
	note := ""
	switch {
	case (c.Hours != nil) == (len(c.Intervals) > 0):
		return fmt.Errorf("%s: want hours or intervals, one of the two%s", where, unfilled(c.Machine))
	case c.Hours != nil:
		var err error
		if q, err = c.Hours.span(where + ".hours"); err != nil {
			return err
		}
	default:
		total, err := allocated(where, c.Intervals)
		if err != nil {
			return err
		}
		q = exactly(total)
		note = fmt.Sprintf("%d allocated intervals", len(c.Intervals))
	}
	_, err := b.line(where, Line{Kind: "compute", What: c.What, Unit: "hours", Rate: c.Rate, Note: note}, q, "hour")
	return err
}

func unfilled(machine string) string {
	if machine == "" {
		return ""
	}
	return "; no release of machine " + machine + " states an interval"
}

// allocated adds up intervals that do not overlap: an hour is paid once.
func allocated(where string, list []Interval) (*big.Rat, error) {
	sorted := slices.Clone(list)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].From.Before(sorted[j].From) })
	total := new(big.Rat)
	for i, iv := range sorted {
		h, err := iv.hours(fmt.Sprintf("%s.intervals", where))
		if err != nil {
			return nil, err
		}
		if i > 0 && iv.From.Before(sorted[i-1].To) {
			return nil, fmt.Errorf("%s.intervals: the one from %s begins before the one from %s ends; one machine is allocated once at a time", where, iv.From.Format(time.RFC3339), sorted[i-1].From.Format(time.RFC3339))
		}
		total.Add(total, h)
	}
	return total, nil
}

func (b *book) storage(where string, d Storage) error {
	if (d.Hours != nil) == (d.Window != nil) {
		return fmt.Errorf("%s: want hours or window, one of the two", where)
	}
	var q span
	if d.Hours != nil {
		var err error
		if q, err = d.Hours.span(where + ".hours"); err != nil {
			return err
		}
	} else {
		h, err := d.Window.hours(where + ".window")
		if err != nil {
			return err
		}
		q = exactly(h)
	}
	hourly, err := b.line(where, Line{Kind: "storage", What: d.What, Unit: "hours", Rate: d.Rate, Note: "the whole window; a disk that is kept goes on costing"}, q, "month", "hour")
	if err == nil && hourly != nil {
		l := &b.est.Lines[len(b.est.Lines)-1]
		l.PerHour, l.PerDay = amount(hourly), amount(new(big.Rat).Mul(hourly, big.NewRat(24, 1)))
	}
	return err
}

func (b *book) transfer(where string, t Transfer) error {
	var q span
	switch {
	case (t.Gigabytes != nil) == (t.Bytes != ""):
		return fmt.Errorf("%s: want gigabytes or bytes, one of the two", where)
	case t.Gigabytes != nil:
		var err error
		if q, err = t.Gigabytes.span(where + ".gigabytes"); err != nil {
			return err
		}
	default:
		n, err := strconv.ParseUint(t.Bytes, 10, 63)
		if err != nil {
			return fmt.Errorf("%s.bytes: got %.40q, want a whole number below 2^63", where, t.Bytes)
		}
		q = exactly(big.NewRat(int64(n), 1_000_000_000))
	}
	note := ""
	if t.Allowance != nil {
		free, err := t.Allowance.span(where + ".allowance")
		if err != nil {
			return err
		}
		note = fmt.Sprintf("of %s to %s GB, %s to %s GB are free", plain(q.low), plain(q.high), plain(free.low), plain(free.high))
		q = q.minus(free)
	}
	_, err := b.line(where, Line{Kind: "transfer", What: t.What, Unit: "GB", Rate: t.Rate, Note: note}, q, "GB")
	return err
}

// line prices a quantity. It returns the rate for one unit, nil without one.
func (b *book) line(where string, l Line, q span, units ...string) (*big.Rat, error) {
	if l.What == "" {
		return nil, fmt.Errorf("%s: it does not say what it is", where)
	}
	l.Quantity = Range{plain(q.low), plain(q.high)}
	if l.Rate == "" {
		b.est.Lines = append(b.est.Lines, l)
		b.est.Unpriced = append(b.est.Unpriced, l.What)
		return nil, nil
	}
	r, ok := b.rates[l.Rate]
	if !ok {
		return nil, fmt.Errorf("%s.rate: there is no rate %q", where, l.Rate)
	}
	if !slices.Contains(units, r.Per) {
		return nil, fmt.Errorf("%s.rate: %q is per %s, want per %s", where, l.Rate, r.Per, strings.Join(units, " or "))
	}
	unit, err := parse("rate "+l.Rate, r.Amount)
	if err != nil {
		return nil, err
	}
	if r.Per == "month" {
		unit.Quo(unit, big.NewRat(PlanningMonth, 1))
	}
	b.used[l.Rate] = true
	sum := q.times(unit)
	b.sum = b.sum.plus(sum)
	l.Amount = &Range{amount(sum.low), amount(sum.high)}
	b.est.Lines = append(b.est.Lines, l)
	return unit, nil
}

// amount rounds half up to six digits behind the point.
func amount(r *big.Rat) string { return r.FloatString(6) }

// plain shows a quantity: exactly where a decimal number can, else with nine digits.
func plain(r *big.Rat) string {
	s := r.FloatString(9)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Cents rounds an amount of an [Estimate] half up to two digits behind the point, for people.
func Cents(s string) string {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return s
	}
	return r.FloatString(2)
}
