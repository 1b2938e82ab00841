package keys

import (
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// GenerateLogKey makes the Ed25519 key of a log that signs checkpoints as C2SP
// signed notes. name is the log's origin, without white space or "+". skey is
// secret; vkey is what trust files pin.
func GenerateLogKey(name string) (skey, vkey string, err error) {
	if skey, vkey, err = note.GenerateKey(rand.Reader, name); err != nil {
		return "", "", err
	}
	if _, err := note.NewVerifier(vkey); err != nil {
		return "", "", fmt.Errorf("log name: got %q, want no white space and no \"+\"", name)
	}
	return skey, vkey, nil
}

// EncodeLogKey writes a log's secret key in PEM, encrypted as [Encode] does.
func EncodeLogKey(skey string, password []byte) ([]byte, error) {
	if err := checkLogKey(skey); err != nil {
		return nil, err
	}
	return seal(typeLog, []byte(skey), password)
}

// EncodeLogKeyPlain writes a log's secret key in PEM for everybody to read who
// can read the file. Only for users who insist.
func EncodeLogKeyPlain(skey string) ([]byte, error) {
	if err := checkLogKey(skey); err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: typePlainLog, Bytes: []byte(skey)}), nil
}

// LoadLogKey reads what EncodeLogKey and EncodeLogKeyPlain write.
func LoadLogKey(doc []byte, password Password) (skey string, err error) {
	block, err := oneBlock(doc)
	if err != nil {
		return "", fmt.Errorf("log key: %w", err)
	}
	secret := block.Bytes
	switch block.Type {
	case typeLog:
		if secret, err = open(block.Bytes, password); err != nil {
			return "", fmt.Errorf("log key: %w", err)
		}
	case typePlainLog:
	default:
		return "", fmt.Errorf("log key: got a PEM block %q, want %q", block.Type, typeLog)
	}
	return string(secret), checkLogKey(string(secret))
}

func checkLogKey(skey string) error {
	if _, err := note.NewSigner(skey); err != nil {
		return fmt.Errorf("log key: %w", err) // the library's error does not repeat the key
	}
	return nil
}
