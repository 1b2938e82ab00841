package schemas

import "time"

// ComputeURI is the schema of a [Compute] file.
const ComputeURI = BaseURI + "schema/compute/v1"

// Compute names one rented machine and says what is known of its rent. It holds
// account identifiers: the file stays private, and what is public of it is its
// digest. Schema: compute.v1.json.
type Compute struct {
	Schema        string        `json:"schema"`
	Provider      string        `json:"provider"`        // azure
	Cloud         string        `json:"cloud,omitempty"` // public when empty, government, china
	Subscription  string        `json:"subscription"`    // UUID
	ResourceGroup string        `json:"resourceGroup"`   //
	Name          string        `json:"name"`            // of the virtual machine
	VMID          string        `json:"vmId"`            // UUID, properties.vmId: another machine of the same name has another
	Size          string        `json:"size"`            // e.g. Standard_NC24ads_A100_v4
	Image         *ComputeImage `json:"image,omitempty"` // held against the machine where given
	Allocated     *Allocated    `json:"allocated,omitempty"`
	BusyTags      []string      `json:"busyTags,omitempty"` // a tag of these names with a value other than empty says that somebody works there
	// Checks are commands that must end with exit status 0 right before the
	// release: that no job and no transfer runs on the machine. No shell is involved.
	Checks [][]string `json:"checks,omitempty"`
}

// ComputeImage is a platform image by its exact version.
type ComputeImage struct {
	Publisher string `json:"publisher"`
	Offer     string `json:"offer"`
	SKU       string `json:"sku"`
	Version   string `json:"version"` // three decimal numbers; "latest" is refused: it names no image
}

// Allocated is a start of allocation as somebody recorded it.
type Allocated struct {
	From   time.Time `json:"from"`
	Source string    `json:"source"` // where that was read, e.g. the activity log
}

// AllocationURI is the schema of an [Allocation].
const AllocationURI = BaseURI + "schema/allocation/v1"

// Allocation says in which interval a machine was allocated, for cost sheets. It
// names no account and is no part of any decision. Schema: allocation.v1.json.
type Allocation struct {
	Schema  string          `json:"schema"`
	Machine string          `json:"machine"`       // sha256 of its identity
	Size    string          `json:"size"`          //
	GPU     string          `json:"gpu"`           // by the size's name
	From    time.Time       `json:"from,omitzero"` // zero when unknown
	Source  string          `json:"source"`        // how From is known
	To      time.Time       `json:"to"`            // when it was first seen as deallocated
	Already bool            `json:"already"`       // it was deallocated earlier than To, nobody knows when
	Disks   []AllocatedDisk `json:"disks,omitempty"`
}

// AllocatedDisk is one disk, which is billed also after the release.
type AllocatedDisk struct {
	Role       string `json:"role"`
	SizeGiB    int64  `json:"sizeGiB"`
	SKU        string `json:"sku"`
	Persistent bool   `json:"persistent"`
}
