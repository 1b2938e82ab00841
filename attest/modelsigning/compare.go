package modelsigning

import (
	"fmt"

	godigest "github.com/opencontainers/go-digest"
)

// The checks of a comparison, as differences name them.
const (
	CheckMissing = "file is missing"
	CheckExtra   = "file is not signed"
	CheckBytes   = "bytes differ"
)

// Difference is one way in which a model is not what was signed.
type Difference struct {
	Check string `json:"check"`
	Name  string `json:"name"`
	Got   string `json:"got"`
	Want  string `json:"want"`
}

// Compare holds a model, as [Scan] read it in the manifest's method, against
// the signature: every resource by name, and no other. None means that the
// model is the one that was signed.
func (m Manifest) Compare(model Model) []Difference {
	list := []Difference{}
	have := make(map[string]godigest.Digest, len(model.Resources))
	for _, r := range model.Resources {
		if model.Single && m.unnamed() {
			r.Name = "."
		}
		have[r.Name] = r.Digest
	}
	for _, r := range m.Resources {
		d, ok := have[r.Name]
		switch {
		case !ok:
			list = append(list, Difference{CheckMissing, r.Name, "no such file", r.Digest.String()})
		case d != r.Digest:
			list = append(list, Difference{CheckBytes, r.Name, d.String(), r.Digest.String()})
		}
		delete(have, r.Name)
	}
	for _, r := range model.Resources {
		if _, extra := have[r.Name]; extra {
			list = append(list, Difference{CheckExtra, r.Name, r.Digest.String(), fmt.Sprintf("one of the %d that were signed", len(m.Resources))})
		}
	}
	return list
}

// unnamed tells a signature over one file that says nothing of its name.
func (m Manifest) unnamed() bool { return len(m.Resources) == 1 && m.Resources[0].Name == "." }
