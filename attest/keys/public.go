package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/hex"
	"fmt"
	"slices"
)

// wantKinds names the keys that sign and verify. RSA is none of them: an
// envelope does not say which padding its signature has, so that two readers
// may take one signature differently. Whoever must trust one signs again.
const wantKinds = "ECDSA P-256, ECDSA P-384 or Ed25519"

// CheckPublic refuses public keys of other kinds than ECDSA P-256, ECDSA P-384
// and Ed25519, points off their curve, and Ed25519 keys with a second encoding
// or of small order, under which one signature verifies for many messages.
func CheckPublic(pub crypto.PublicKey) error {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if k == nil || (k.Curve != elliptic.P256() && k.Curve != elliptic.P384()) {
			return fmt.Errorf("public key: got ECDSA on %s, want %s", curveName(k), wantKinds)
		}
		if _, err := k.Bytes(); err != nil { // off the curve, or the point at infinity
			return fmt.Errorf("public key: %w", err)
		}
		return nil
	case ed25519.PublicKey:
		return checkEd25519(k)
	case *rsa.PublicKey:
		return fmt.Errorf("public key: got RSA of %d bits, want %s: an envelope does not name the padding of an RSA signature", k.N.BitLen(), wantKinds)
	}
	return fmt.Errorf("public key: got %T, want %s", pub, wantKinds)
}

func curveName(k *ecdsa.PublicKey) string {
	if k == nil || k.Curve == nil {
		return "no curve"
	}
	return k.Params().Name
}

// smallOrder has the y coordinates of the eight points of order 1, 2, 4 and 8
// on edwards25519 (RFC 8032 §5.1), 32 bytes little-endian.
var smallOrder = [][]byte{
	unhex("0000000000000000000000000000000000000000000000000000000000000000"),
	unhex("0100000000000000000000000000000000000000000000000000000000000000"),
	unhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
	unhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
	unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err) // a constant of this file
	}
	return b
}

func checkEd25519(k ed25519.PublicKey) error {
	if len(k) != ed25519.PublicKeySize {
		return fmt.Errorf("public key: got an Ed25519 key of %d bytes, want %d", len(k), ed25519.PublicKeySize)
	}
	y := bytes.Clone(k)
	y[31] &= 0x7f // the sign of x
	// p = 2^255-19: the encodings from p on name points that have another one.
	if y[0] >= 0xed && y[31] == 0x7f && allOnes(y[1:31]) {
		return fmt.Errorf("public key: got an Ed25519 key in a second encoding of its point, want the one of RFC 8032")
	}
	if slices.ContainsFunc(smallOrder, func(low []byte) bool { return bytes.Equal(low, y) }) {
		return fmt.Errorf("public key: got an Ed25519 key of small order, want one that binds a signature to its message")
	}
	return nil
}

func allOnes(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != 0xff })
}
