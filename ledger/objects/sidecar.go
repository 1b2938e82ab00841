package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// describe writes an object's JSON file in place of the old one.
func (s *Store) describe(o Object) error {
	text, err := o.text()
	if err != nil {
		return err
	}
	if err := durable.Replace(s.sidecar(o.Digest), text, 0o644); err != nil {
		return fmt.Errorf("objects: describe %s: %w", o.Digest, err)
	}
	return nil
}

func (o Object) text() ([]byte, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("objects: describe %s: %w", o.Digest, err)
	}
	return append(text, '\n'), nil
}

func (s *Store) readSidecar(d godigest.Digest) (Object, error) {
	path := s.sidecar(d)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Object{}, fmt.Errorf("objects: %s: %w", d, ErrNotFound)
	}
	if err != nil {
		return Object{}, fmt.Errorf("objects: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSidecarBytes+1))
	if err != nil {
		return Object{}, fmt.Errorf("objects: read %s: %w", path, err)
	}
	o, err := parseSidecar(text)
	if err != nil {
		return Object{}, &CorruptError{path, "description", err.Error(), "a description"}
	}
	if o.Digest != d {
		return Object{}, &CorruptError{path, "digest in the description", o.Digest.String(), d.String() + " as in the file's name"}
	}
	return o, nil
}

// parseSidecar accepts exactly what Object.text writes.
func parseSidecar(text []byte) (Object, error) {
	if len(text) > maxSidecarBytes {
		return Object{}, fmt.Errorf("more than %d bytes", maxSidecarBytes)
	}
	var o Object
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return Object{}, err
	}
	if err := checkDigest(o.Digest); err != nil {
		return Object{}, err
	}
	if err := checkMediaType(o.MediaType); err != nil {
		return Object{}, err
	}
	if o.Size < 0 {
		return Object{}, fmt.Errorf("size %d", o.Size)
	}
	again, err := o.text()
	if err != nil {
		return Object{}, err
	}
	if !bytes.Equal(again, text) {
		return Object{}, fmt.Errorf("%.200q, which is not how it is written (%.200q)", text, again)
	}
	return o, nil
}
