package keys

import (
	"crypto/aes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"

	"github.com/youmark/pkcs8"
)

// Limits of the key derivation that a PKCS #8 file may ask for. The library has
// none, and does the work before it finds the password wrong.
const (
	maxIterations = 10_000_000 // PBKDF2
	maxScrypt     = 256 << 20  // scrypt: 128 N r, in bytes
	maxParallel   = 16         // scrypt: p
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidScrypt = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}
	// AES-128, 192 and 256 in CBC mode (NIST CSOR).
	oidAES = []asn1.ObjectIdentifier{{2, 16, 840, 1, 101, 3, 4, 1, 2}, {2, 16, 840, 1, 101, 3, 4, 1, 22}, {2, 16, 840, 1, 101, 3, 4, 1, 42}}
)

// openPKCS8 reads an EncryptedPrivateKeyInfo (RFC 5958 §3) under PBES2
// (RFC 8018 §6.2) with PBKDF2 or scrypt and AES in CBC mode.
func openPKCS8(der []byte, password Password) (any, error) {
	if err := checkPBES2(der); err != nil {
		return nil, err
	}
	word, err := ask(password)
	if err != nil {
		return nil, err
	}
	defer clear(word)
	if len(word) == 0 { // the library would take the file for an unencrypted one
		return nil, errors.New("wrong password: got an empty one")
	}
	key, _, err := pkcs8.ParsePrivateKey(der, word)
	if err != nil {
		return nil, fmt.Errorf("wrong password or damaged file: %w", err)
	}
	return key, nil
}

// checkPBES2 bounds the work and rules out what the library would panic on.
func checkPBES2(der []byte) error {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 || !info.Algorithm.Algorithm.Equal(oidPBES2) {
		return fmt.Errorf("got an encrypted PKCS #8 file by %v, want PBES2 (%v)", info.Algorithm.Algorithm, oidPBES2)
	}
	var params struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	if err := parse(info.Algorithm.Parameters.FullBytes, &params); err != nil {
		return err
	}
	var iv []byte
	if err := parse(params.Cipher.Parameters.FullBytes, &iv); err != nil {
		return err
	}
	known := false
	for _, oid := range oidAES {
		known = known || params.Cipher.Algorithm.Equal(oid)
	}
	if !known {
		return fmt.Errorf("got an encrypted PKCS #8 file by the cipher %v, want AES in CBC mode", params.Cipher.Algorithm)
	}
	if len(iv) != aes.BlockSize || len(info.Data) == 0 || len(info.Data)%aes.BlockSize != 0 {
		return fmt.Errorf("got an initial vector of %d bytes and %d bytes encrypted, want %d and a multiple of it", len(iv), len(info.Data), aes.BlockSize)
	}
	return checkKDF(params.KDF)
}

func checkKDF(kdf pkix.AlgorithmIdentifier) error {
	switch {
	case kdf.Algorithm.Equal(oidPBKDF2):
		var p struct {
			Salt       []byte
			Iterations int
			Length     int                      `asn1:"optional"`
			PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
		}
		if err := parse(kdf.Parameters.FullBytes, &p); err != nil {
			return err
		}
		if p.Iterations < 1 || p.Iterations > maxIterations {
			return fmt.Errorf("got %d iterations of PBKDF2, want at least 1 and at most %d", p.Iterations, maxIterations)
		}
		return nil
	case kdf.Algorithm.Equal(oidScrypt):
		var p struct {
			Salt    []byte
			N, R, P int
		}
		if err := parse(kdf.Parameters.FullBytes, &p); err != nil {
			return err
		}
		if p.N < 2 || p.R < 1 || p.P < 1 || p.P > maxParallel || p.N > maxScrypt/128 || p.R > maxScrypt/128/p.N {
			return fmt.Errorf("got scrypt with N %d, r %d, p %d, want at most %d bytes (128 N r) and p at most %d", p.N, p.R, p.P, maxScrypt, maxParallel)
		}
		return nil
	}
	return fmt.Errorf("got the key derivation %v, want PBKDF2 or scrypt", kdf.Algorithm)
}

func parse(der []byte, v any) error {
	if rest, err := asn1.Unmarshal(der, v); err != nil || len(rest) > 0 {
		return errors.New("got malformed parameters of an encrypted PKCS #8 file")
	}
	return nil
}
