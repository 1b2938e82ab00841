package sigstore

import (
	"errors"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/weighmaster/weighmaster/attest"
)

// moment is a time that somebody other than the signer vouches for.
type moment struct {
	at     time.Time
	source string
}

// within holds vouched times against the period of validity and returns the
// earliest, zero when there is none. Every one must lie inside: an authority
// that saw the signature when the key was not valid is believed as well.
func (t *trusted) within(vouched []moment) (time.Time, error) {
	var earliest time.Time
	for _, m := range vouched {
		if err := t.validAt(m.at, m.source); err != nil {
			return time.Time{}, err
		}
		if earliest.IsZero() || m.at.Before(earliest) {
			earliest = m.at
		}
	}
	return earliest, nil
}

// timestamps verifies the RFC 3161 timestamps of a bundle under the trusted
// root. sigstore-go passes over those that fail beside enough that do not; a
// bundle is refused here for any one, since its maker meant it to count.
func (v *verifier) timestamps(b *sigbundle.Bundle) ([]moment, error) {
	list, failed, err := verify.VerifySignedTimestamp(b, v.root)
	if err = errors.Join(append([]error{err}, failed...)...); err != nil {
		return nil, refused(attest.CheckTimestamp, "a timestamp that does not verify", "one over this signature by an authority of the trusted root, in its time", err)
	}
	vouched := make([]moment, 0, len(list))
	for _, ts := range list {
		vouched = append(vouched, moment{ts.Time, "which a timestamp authority vouches for"})
	}
	return vouched, nil
}

// vouchedForKey gives the times that a trusted root vouches for in a bundle by
// a local key. Without a root nobody vouches for anything.
func (v *verifier) vouchedForKey(b *sigbundle.Bundle) ([]moment, error) {
	if v.root == nil {
		return nil, nil
	}
	vouched, err := v.timestamps(b)
	if err != nil {
		return nil, err
	}
	entries, err := b.TlogEntries()
	if err == nil && len(entries) > 0 {
		var logged []root.Timestamp
		logged, err = verify.VerifyTlogEntry(b, keysAndRoot{v.root, v.material}, 1, true)
		for _, ts := range logged {
			vouched = append(vouched, moment{ts.Time, "when a transparency log took it in"})
		}
	}
	if err != nil {
		return nil, refused(attest.CheckLogEntry, "a log entry that does not verify", "one about this signature in a log of the trusted root", err)
	}
	return vouched, nil
}

// keysAndRoot is a trusted root that knows the functionaries' keys: log entries
// name the key that signed.
type keysAndRoot struct {
	root.TrustedMaterial
	keys root.TrustedMaterial
}

func (k keysAndRoot) PublicKeyVerifier(hint string) (root.TimeConstrainedVerifier, error) {
	return k.keys.PublicKeyVerifier(hint)
}
