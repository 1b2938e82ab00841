package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// reportFiles are the files that an answer is written to for other machines.
type reportFiles struct{ junit, sarif string }

// write writes the answer, or why there is none, to every file that was asked
// for. A file of an earlier answer never outlives a question that could not be
// answered: it would look like the answer.
func (f reportFiles) write(artifact string, d policy.Decision, failed error) error {
	if failed != nil {
		d.Verdict = schemas.Undecided
		d.Reasons = []policy.Reason{{Rule: "question", What: "the policy could not be asked", Verdict: schemas.Undecided, Got: failed.Error(), Want: "an answer"}}
	}
	var errs []error
	for _, file := range []struct {
		path   string
		encode func(string, policy.Decision) ([]byte, error)
	}{{f.junit, encodeJUnit}, {f.sarif, encodeSARIF}} {
		if file.path == "" {
			continue
		}
		body, err := file.encode(artifact, d)
		if err == nil {
			err = writeWhole(file.path, body)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// writeWhole puts a file in place whole or not at all, over an earlier one.
func writeWhole(path string, body []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return usage("%s cannot be written: %v", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(body)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
