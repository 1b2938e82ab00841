package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// maxComputeFile bounds the file that names a rented machine, in bytes.
const maxComputeFile = 1 << 20

// computeRecord is the private record of what was seen of rented compute. It
// holds account identifiers; Statements carry its digest alone.
type computeRecord struct {
	Machine  schemas.Compute `json:"machine"`
	Endpoint string          `json:"endpoint"`
	Before   any             `json:"before,omitempty"`
	After    any             `json:"after,omitempty"`
	Events   []RentalEvent   `json:"events,omitempty"`
	Checks   []checked       `json:"checks,omitempty"`
}

// readCompute reads the file that names a rented machine. Its errors repeat
// nothing of it but what is wrong: they are recorded in public.
func readCompute(run *Run, name string) (schemas.Compute, godigest.Digest, error) {
	var m schemas.Compute
	body, err := readBounded(below(run.Project, name), maxComputeFile)
	if err != nil {
		return m, "", err
	}
	if err := schemas.DecodeYAML(name, body, schemas.ComputeURI, &m); err != nil {
		var invalid *schemas.InvalidError
		if errors.As(err, &invalid) {
			return m, "", fmt.Errorf("%s: at %s: %s", name, invalid.Pointer, invalid.Want)
		}
		return m, "", fmt.Errorf("%s: no YAML document of schema %s: a key twice or unknown, or wrong indentation", name, schemas.ComputeURI)
	}
	return m, godigest.FromBytes(body), nil
}

// machineDigest names a machine without telling which it is: its vmId is random,
// so that nobody finds it by trying.
func machineDigest(r Rental, m schemas.Compute) string {
	return godigest.FromString(strings.ToLower(r.ID() + "\n" + m.VMID)).String()
}

// computeOutcome starts the outcome of a stage that looks at rented compute.
func computeOutcome(m schemas.Compute, file godigest.Digest, r Rental) *Outcome {
	return &Outcome{
		Verdict:  schemas.Undecided,
		Facts:    map[string]string{"compute": m.Provider, "machine": machineDigest(r, m), "size": m.Size, "endpoint": r.Endpoint()},
		Internal: map[string]any{"file": file.String(), "endpoint": r.Endpoint()},
	}
}

// seen puts what may be public of an observation into the facts: names of
// findings, never their details.
func (o *Outcome) seen(v RentalState) {
	o.Facts["state"] = v.Power
	if v.Power == "" {
		o.Facts["state"] = "unknown"
	}
	o.Facts["size"], o.Facts["gpu"], o.Facts["clockSkew"] = v.Size, v.GPU, v.Skew
	if v.Image != "" {
		o.Facts["image"] = v.Image
	}
	o.Facts["findings"] = strings.Join(v.Findings, ", ")
}

// keepCompute stores the private record.
func (o *Outcome) keepCompute(ctx context.Context, run *Run, rec computeRecord) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	digest, size, err := run.Objects.Put(context.WithoutCancel(ctx), "application/json", false, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("store compute/vm: %w", err)
	}
	o.Evidence = append(o.Evidence, Evidence{Name: "compute/vm", Digest: digest, MediaType: "application/json", Size: size})
	return nil
}

// timestamp spells a moment as facts do: UTC, whatever zone it was given in.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
