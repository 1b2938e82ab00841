package azure

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/weighmaster/weighmaster/schemas"
)

// Observation is what Azure says of one machine at one moment. It holds account
// identifiers and is kept private.
type Observation struct {
	At         time.Time         `json:"at"` // by our clock, UTC
	ResourceID string            `json:"resourceId"`
	VMID       string            `json:"vmId"`
	Created    *time.Time        `json:"created,omitempty"`
	Etag       string            `json:"etag,omitempty"`
	Location   string            `json:"location"`
	Zones      []string          `json:"zones,omitempty"`
	Size       string            `json:"size"`
	GPU        string            `json:"gpu"` // by the size's name, see [GPU]
	Generation string            `json:"hyperVGeneration,omitempty"`
	Priority   string            `json:"priority"` // Regular, Low, Spot
	Image      Image             `json:"image"`
	Disks      []Disk            `json:"disks"`
	Network    Network           `json:"network"`
	Tags       map[string]string `json:"tags,omitempty"`
	Power      string            `json:"power"` // PowerState/…; empty where PowerFault says why
	PowerFault string            `json:"powerFault,omitempty"`
	Statuses   []Status          `json:"statuses"`
	Skew       string            `json:"clockSkew"` // ours minus Azure's, or unknown
	Findings   []Finding         `json:"findings"`
}

// Finding is something that the producer should know of. Name is one of a few
// and holds no identifier; Detail may.
type Finding struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// Image is what the machine was made from. Exact tells whether that is one
// image: "latest" and an image without a version are none.
type Image struct {
	Publisher string `json:"publisher,omitempty"`
	Offer     string `json:"offer,omitempty"`
	SKU       string `json:"sku,omitempty"`
	Version   string `json:"version,omitempty"` // as asked for
	Resolved  string `json:"exactVersion,omitempty"`
	ID        string `json:"id,omitempty"` // of a gallery image
	Exact     bool   `json:"exact"`
}

// Status is one status of the instance view.
type Status struct {
	Code string     `json:"code"`
	Time *time.Time `json:"time,omitempty"`
}

// maxSkew is how far our clock may be from Azure's before that is a finding.
const maxSkew = time.Minute

var exactVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
var exactGalleryID = regexp.MustCompile(`/versions/[0-9]+\.[0-9]+\.[0-9]+$`)

// Observe reads the machine with its instance view, its disks and its network
// rules. Another machine is a *stages.OtherMachine, before anything else is asked.
// Disks and network rules that may not be read are findings and no errors.
func (c *Client) Observe(ctx context.Context, m schemas.Compute) (Observation, error) {
	vm, err := c.look(ctx, m)
	if err != nil {
		return Observation{}, err
	}
	o := c.observed(m, vm)
	c.readDisks(ctx, &o, vm)
	c.readNetwork(ctx, &o, vm)
	return o, nil
}

// look reads the machine with its instance view in one answer, so that identity
// and power state are of one moment, and checks the identity.
func (c *Client) look(ctx context.Context, m schemas.Compute) (*armcompute.VirtualMachine, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := c.vms.Get(ctx, m.ResourceGroup, m.Name, &armcompute.VirtualMachinesClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	if err != nil {
		return nil, callError("read the machine", err)
	}
	if err := identify(m, &resp.VirtualMachine); err != nil {
		return nil, err
	}
	return &resp.VirtualMachine, nil
}

// observed is the part of an observation that the machine's own answer gives.
func (c *Client) observed(m schemas.Compute, vm *armcompute.VirtualMachine) Observation {
	p := vm.Properties
	o := Observation{
		At: c.now().UTC(), ResourceID: text(vm.ID), VMID: text(p.VMID), Created: p.TimeCreated, Etag: text(vm.Etag), Location: text(vm.Location), Priority: text(p.Priority),
		Disks: []Disk{}, Statuses: []Status{}, Findings: []Finding{}, Tags: map[string]string{}, Skew: "unknown",
	}
	for _, z := range vm.Zones {
		o.Zones = append(o.Zones, text(z))
	}
	for k, v := range vm.Tags {
		o.Tags[k] = text(v)
	}
	if o.Priority == "" {
		o.Priority = string(armcompute.VirtualMachinePriorityTypesRegular)
	}
	if p.HardwareProfile != nil {
		o.Size = text(p.HardwareProfile.VMSize)
	}
	if o.GPU = GPU(o.Size); o.Size != m.Size {
		o.find("size", "got %s, want %s", o.Size, m.Size)
	}
	o.image(m, p.StorageProfile)
	o.Power, o.PowerFault = power(p.InstanceView)
	if view := p.InstanceView; view != nil {
		o.Generation = text(view.HyperVGeneration)
		for _, s := range view.Statuses {
			if s != nil {
				o.Statuses = append(o.Statuses, Status{Code: text(s.Code), Time: s.Time})
			}
		}
	}
	if skew, known := c.date.read(); known {
		o.Skew = skew.Round(time.Second).String()
		if skew.Abs() > maxSkew {
			o.find("clock", "this machine's clock is %s ahead of Azure's; recorded moments carry that error", o.Skew)
		}
	}
	return o
}

func (o *Observation) image(m schemas.Compute, storage *armcompute.StorageProfile) {
	if storage == nil || storage.ImageReference == nil {
		o.find("image", "the answer names no image")
		return
	}
	r := storage.ImageReference
	i := Image{Publisher: text(r.Publisher), Offer: text(r.Offer), SKU: text(r.SKU), Version: text(r.Version), Resolved: text(r.ExactVersion), ID: text(r.ID)}
	for _, id := range []*string{r.CommunityGalleryImageID, r.SharedGalleryImageID} {
		if i.ID == "" {
			i.ID = text(id)
		}
	}
	version := i.Resolved
	if version == "" {
		version = i.Version
	}
	i.Exact = exactVersion.MatchString(version) || exactGalleryID.MatchString(i.ID)
	o.Image = i
	switch {
	case !i.Exact:
		o.find("image", "version %q names no exact image: what was installed is not known from it", version)
	case m.Image != nil && (i.Publisher != m.Image.Publisher || i.Offer != m.Image.Offer || i.SKU != m.Image.SKU || version != m.Image.Version):
		o.find("image", "got %s:%s:%s:%s, want %s:%s:%s:%s", i.Publisher, i.Offer, i.SKU, version, m.Image.Publisher, m.Image.Offer, m.Image.SKU, m.Image.Version)
	}
}

func (o *Observation) find(name, format string, args ...any) {
	o.Findings = append(o.Findings, Finding{Name: name, Detail: fmt.Sprintf(format, args...)})
}
