package stages

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// Deallocated is the only state in which rented compute is released: the
// provider's own word. Reference: Azure, "States and billing of virtual machines".
const Deallocated = "PowerState/deallocated"

// ConnectRental makes the way to one rented machine; now is the run's clock. It
// sends nothing yet. Each provider's adapter has one, and the program hands it
// to the stages, so that they need no provider's library.
type ConnectRental func(m schemas.Compute, now func() time.Time) (Rental, error)

// Rental is one rented machine at its provider.
type Rental interface {
	// Endpoint is where the provider is asked.
	Endpoint() string
	// ID names the machine at its provider: account data, of which at most a digest is public.
	ID() string
	// Here tells whether this program is seen to run on that very machine.
	Here() bool
	// Observe reads what the provider says of the machine. Another machine than
	// the one that is meant is an *OtherMachine.
	Observe(ctx context.Context) (RentalState, error)
	// Release deallocates the machine and waits, within the bound, until the
	// provider says so. What happened is the result's verdict: passed only for a
	// machine that was seen, by identity, as [Deallocated].
	Release(ctx context.Context, b RentalBound) RentalResult
}

// RentalState is what a provider says of one machine at one moment.
type RentalState struct {
	At         time.Time // by our clock, UTC
	Power      string    // PowerState/…; empty where PowerFault says why
	PowerFault string
	Size       string
	GPU        string // which graphics processors a machine of that size has: none, unknown or e.g. 1 × NVIDIA A100 80 GB
	Image      string // publisher:offer:sku:version of the one published image it was made from; empty where there is none
	Skew       string // our clock minus the provider's, e.g. -2s, or unknown
	Disks      []schemas.AllocatedDisk
	Tags       map[string]string
	Findings   []string // names of what the producer should know of; no identifiers
	Private    any      // all that was seen, for the private record alone, as JSON
}

// RentalBound bounds the polling: whichever is reached first ends it undecided.
type RentalBound struct {
	Attempts int           // observations
	Interval time.Duration // between two
	Within   time.Duration // from first to last
}

// RentalEvent is one thing that was asked or answered, for the private record.
type RentalEvent struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// RentalResult is how a release ended.
type RentalResult struct {
	Verdict  schemas.Verdict
	Failure  string       // no account identifiers; empty when passed
	Already  bool         // it was deallocated before anything was asked
	Verified time.Time    // when it was first seen as deallocated; zero when never
	State    string       // the last power state seen
	Last     *RentalState // the last complete observation; nil when there was none
	Events   []RentalEvent
}

// OtherMachine says that the machine that answers is not the one that is meant.
// Its text names what differs and no identifier: these are account data.
type OtherMachine struct {
	What []string // fields that differ
}

func (e *OtherMachine) Error() string {
	return fmt.Sprintf("another machine answers: got a different %s, want the machine of the file; nothing was asked of it", strings.Join(e.What, ", "))
}

// rental connects by the way that the program handed in.
func (connect ConnectRental) rental(run *Run, m schemas.Compute) (Rental, error) {
	if connect == nil {
		return nil, fmt.Errorf("stage %s: no provider of rented compute is known here", run.Stage)
	}
	return connect(m, run.Now)
}
