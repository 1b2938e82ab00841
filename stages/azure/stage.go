package azure

import (
	"context"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// Rentals connects the stages observe and release with Azure. The clock is the run's.
func Rentals(o Options) stages.ConnectRental {
	return func(m schemas.Compute, now func() time.Time) (stages.Rental, error) {
		o := o
		o.Now = now
		c, err := Connect(m, o)
		if err != nil {
			return nil, err
		}
		firmware := o.Firmware
		if firmware == nil {
			firmware = dmiUUID
		}
		return &rental{Client: c, m: m, firmware: firmware}, nil
	}
}

// rental is a client and the one machine that it is asked for. It implements
// [stages.Rental].
type rental struct {
	*Client
	m        schemas.Compute
	firmware func() string
}

func (r *rental) ID() string { return ResourceID(r.m) }

func (r *rental) Here() bool { return sameUUID(r.firmware(), r.m.VMID) }

func (r *rental) Observe(ctx context.Context) (stages.RentalState, error) {
	o, err := r.Client.Observe(ctx, r.m)
	if err != nil {
		return stages.RentalState{}, err
	}
	return o.state(), nil
}

func (r *rental) Release(ctx context.Context, b stages.RentalBound) stages.RentalResult {
	got := r.Client.Release(ctx, r.m, b)
	res := stages.RentalResult{Verdict: got.Verdict, Failure: got.Failure, Already: got.Already, Verified: got.Verified, State: got.State, Events: got.Events}
	if got.Last != nil {
		last := got.Last.state()
		res.Last = &last
	}
	return res
}

// state is what the stages look at.
func (o Observation) state() stages.RentalState {
	s := stages.RentalState{At: o.At, Power: o.Power, PowerFault: o.PowerFault, Size: o.Size, GPU: o.GPU, Skew: o.Skew, Tags: o.Tags, Private: o}
	if i := o.Image; i.Exact && i.Publisher != "" { // a gallery's image is named by an account
		version := i.Resolved
		if version == "" {
			version = i.Version
		}
		s.Image = strings.Join([]string{i.Publisher, i.Offer, i.SKU, version}, ":")
	}
	for _, d := range o.Disks {
		s.Disks = append(s.Disks, schemas.AllocatedDisk{Role: d.Role, SizeGiB: int64(d.SizeGiB), SKU: d.SKU, Persistent: !d.Ephemeral})
	}
	for _, f := range o.Findings {
		s.Findings = append(s.Findings, f.Name)
	}
	return s
}
