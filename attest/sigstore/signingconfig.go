package sigstore

import (
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/weighmaster/weighmaster/attest"
)

// Services are those that a keyless signature needs.
type Services struct {
	Certificates sign.CertificateProvider
	Log          sign.Transparency
	Timestamps   Timestamper // nil where the configuration names none
}

// LoadSigningConfig reads a Sigstore signing config in JSON, as cosign takes it
// with --signing-config, and chooses the newest service of each kind that is
// valid now: one certificate authority, one log, and a timestamp authority
// where it names any. Nobody is asked anything before something is signed.
func LoadSigningConfig(doc []byte, now time.Time) (Services, error) {
	s, err := loadSigningConfig(doc, now)
	if err != nil {
		return Services{}, fmt.Errorf("signing config: %w", err)
	}
	return s, nil
}

func loadSigningConfig(doc []byte, now time.Time) (s Services, err error) {
	if len(doc) > MaxTrustedRootBytes {
		return s, fmt.Errorf("got %d bytes, want at most %d", len(doc), MaxTrustedRootBytes)
	}
	if err := attest.CheckJSON(doc); err != nil {
		return s, err
	}
	config, err := root.NewSigningConfigFromJSON(doc)
	if err != nil {
		return s, err
	}
	ca, err := root.SelectService(config.FulcioCertificateAuthorityURLs(), sign.FulcioAPIVersions, now)
	if err != nil {
		return s, fmt.Errorf("certificate authority: %w", err)
	}
	log, err := root.SelectService(config.RekorLogURLs(), sign.RekorAPIVersions, now)
	if err != nil {
		return s, fmt.Errorf("transparency log: %w", err)
	}
	s.Certificates = sign.NewFulcio(&sign.FulcioOptions{BaseURL: ca.URL})
	s.Log = sign.NewRekor(&sign.RekorOptions{BaseURL: log.URL, Version: log.MajorAPIVersion})
	if list := config.TimestampAuthorityURLs(); len(list) > 0 {
		tsa, err := root.SelectService(list, sign.TimestampAuthorityAPIVersions, now)
		if err != nil {
			return s, fmt.Errorf("timestamp authority: %w", err)
		}
		if s.Timestamps, err = NewTimestampClient(tsa.URL); err != nil {
			return s, err
		}
	}
	return s, nil
}
