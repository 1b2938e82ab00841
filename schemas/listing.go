package schemas

import godigest "github.com/opencontainers/go-digest"

// Listing is what a publisher declares about one revision, as the acquire stage
// recorded it. Schema: listing.v1.json.
type Listing struct {
	Schema     string       `json:"schema"`
	URI        string       `json:"uri"`
	Revision   string       `json:"revision"`             // 40 hex digits
	Licence    string       `json:"licence"`              // as declared, lower case; "absent" when none is
	BaseModels []string     `json:"baseModels,omitempty"` // owner/name of the models that the publisher says his is made from
	Files      []ListedFile `json:"files"`                // sorted by path
}

// ListedFile is one file of a revision. Size is in bytes.
type ListedFile struct {
	Path    string          `json:"path"`
	Size    int64           `json:"size"`
	GitBlob string          `json:"gitBlob,omitempty"`
	SHA256  godigest.Digest `json:"sha256,omitempty"`
	Scan    string          `json:"scan"` // the publisher's scan state; "absent" when there is none
	Taken   bool            `json:"taken"`
}
