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
