package sigstore

import (
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/weighmaster/weighmaster/attest"
)

// MaxTrustedRootBytes bounds a trusted root, in bytes.
const MaxTrustedRootBytes = 4 << 20

// LoadTrustedRoot reads a Sigstore trusted root in JSON, strictly: a key twice
// or in another case is an error. Nothing is fetched.
func LoadTrustedRoot(doc []byte) (root.TrustedMaterial, error) {
	if len(doc) > MaxTrustedRootBytes {
		return nil, fmt.Errorf("trusted root: got %d bytes, want at most %d", len(doc), MaxTrustedRootBytes)
	}
	if err := attest.CheckJSON(doc); err != nil {
		return nil, fmt.Errorf("trusted root: %w", err)
	}
	tr, err := root.NewTrustedRootFromJSON(doc)
	if err != nil {
		return nil, fmt.Errorf("trusted root: %w", err)
	}
	return tr, nil
}
