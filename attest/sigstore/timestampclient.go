package sigstore

import (
	"fmt"
	"net/url"

	"github.com/sigstore/sigstore-go/pkg/sign"
)

// NewTimestampClient asks a timestamp authority (RFC 3161) at a URL, http or
// https, each time that something is signed. What it answers is not believed
// until it verifies under the signer's trusted root.
func NewTimestampClient(address string) (Timestamper, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("timestamp authority: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("timestamp authority: got %.100q, want the URL of one, http or https", address)
	}
	return sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: address}), nil
}
