package bom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// element is one SPDX element as JSON-LD; encoding/json writes its keys sorted.
type element map[string]any

// SPDX writes the chain as an SPDX 3.0.1 document in JSON-LD (serialization of
// the SPDX specification, annex "RDF model and JSON-LD"): the artifact and its
// ancestors as ai_AIPackage, their files and corpora, the stages as build_Build,
// and who descends from what as relationships. The same chain gives the same
// bytes.
//
// The document does not claim conformance to the AI profile, which asks a
// download location of every package: intermediates have none.
func SPDX(c Chain) ([]byte, error) {
	w := spdx{base: schemas.BaseURI + "spdx/" + c.Artifact.Digest.Encoded() + "#", created: stamp(c.Artifact.End), seen: map[godigest.Digest]bool{}, agents: map[string]string{}}
	agent := w.add("SoftwareAgent", "weighmaster", element{"name": "weighmaster " + c.Tool})
	w.graph = append([]element{{"type": "CreationInfo", "@id": "_:creation", "specVersion": "3.0.1", "created": w.created, "createdBy": []string{agent}}}, w.graph...)
	root := w.model(c, c.Artifact)
	for _, m := range c.Ancestors {
		w.model(c, m)
	}
	w.licensed(c)
	for _, n := range c.Corpora {
		w.corpus(c, n)
	}
	for _, m := range append([]Made{c.Artifact}, c.Ancestors...) {
		w.build(m)
	}
	elements := make([]string, 0, len(w.graph))
	for _, e := range w.graph {
		if id, ok := e["spdxId"].(string); ok {
			elements = append(elements, id)
		}
	}
	w.add("SpdxDocument", "document", element{"name": c.Artifact.Name, "rootElement": []string{root}, "element": elements,
		"profileConformance": []string{"core", "software", "simpleLicensing", "build"}})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(element{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": w.graph}); err != nil {
		return nil, fmt.Errorf("SPDX: %w", err)
	}
	return out.Bytes(), nil
}

type spdx struct {
	base      string
	created   string
	graph     []element
	relations int
	seen      map[godigest.Digest]bool
	agents    map[string]string // element by functionary
}

// stamp is an SPDX date and time: UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (w *spdx) add(kind, id string, e element) string {
	e["type"], e["spdxId"], e["creationInfo"] = kind, w.base+id, "_:creation"
	w.graph = append(w.graph, e)
	return w.base + id
}

func (w *spdx) relate(from, kind string, to ...string) {
	w.relations++
	w.add("Relationship", fmt.Sprintf("relationship-%d", w.relations), element{"from": from, "relationshipType": kind, "to": to, "completeness": "noAssertion"})
}

func (w *spdx) id(prefix string, d godigest.Digest) string { return w.base + prefix + d.Encoded() }

func hash(d godigest.Digest) []element {
	return []element{{"type": "Hash", "algorithm": "sha256", "hashValue": d.Encoded()}}
}

// model adds an artifact. A folder's digest is that of its manifest, no file's,
// so its files carry the hashes.
func (w *spdx) model(c Chain, m Made) string {
	e := element{"name": m.Name, "software_primaryPurpose": "model", "builtTime": stamp(m.End)}
	if m.Uses == "acquire" {
		e["name"], e["software_packageVersion"], e["software_packageUrl"] = c.Repository, c.Revision, c.purl()
		e["externalIdentifier"] = []element{{"type": "ExternalIdentifier", "externalIdentifierType": "packageUrl", "identifier": c.purl()}}
		owner, _, _ := strings.Cut(c.Repository, "/")
		publisher := w.add("Organization", "publisher", element{"name": owner})
		e["originatedBy"], e["suppliedBy"] = []string{publisher}, publisher
		delete(e, "builtTime") // it was fetched then, not built
	}
	if m.Uses != "acquire" {
		e["suppliedBy"] = w.signer(m.Signers[0])
	}
	if len(m.Files) == 0 {
		e["verifiedUsing"] = hash(m.Digest)
	} else {
		e["comment"] = "The folder's manifest, which binds names, sizes and digests, has the digest " + m.Digest.String() + "."
	}
	if m.Type != "" {
		e["ai_hyperparameter"] = []element{entry("weight type", m.Type)}
	}
	if m.Digest == c.Artifact.Digest {
		w.measured(c, e)
	}
	id := w.add("ai_AIPackage", "model-"+m.Digest.Encoded(), e)
	var files []string
	for i, f := range m.Files {
		files = append(files, w.add("software_File", fmt.Sprintf("file-%s-%d", m.Digest.Encoded(), i), element{"name": f.Name, "verifiedUsing": hash(f.Digest)}))
	}
	if len(files) > 0 {
		w.relate(id, "contains", files...)
	}
	for _, d := range m.Inputs {
		w.relate(id, "descendantOf", w.id("model-", d))
	}
	return id
}

// signer is a functionary, once.
func (w *spdx) signer(name string) string {
	if id, ok := w.agents[name]; ok {
		return id
	}
	w.agents[name] = w.add("Agent", fmt.Sprintf("functionary-%d", len(w.agents)+1), element{"name": name})
	return w.agents[name]
}

func entry(key, value string) element {
	return element{"type": "DictionaryEntry", "key": key, "value": value}
}

func (w *spdx) measured(c Chain, e element) {
	if c.Architecture != "" {
		e["ai_typeOfModel"] = []string{c.Architecture}
	}
	var metrics []element
	for _, m := range c.Metrics {
		key := m.Kernel + ": " + m.Name
		if m.Identity != "" {
			key += " (" + m.Identity + ")"
		}
		metrics = append(metrics, entry(key, number(m.Value)+" "+m.Unit))
	}
	if len(metrics) > 0 {
		e["ai_metric"] = metrics
	}
	if len(c.Limits) > 0 {
		e["ai_limitation"] = strings.Join(c.Limits, "\n")
	}
}

// licensed says that the publisher declares his licence, and that what is made
// of his files is under it too.
func (w *spdx) licensed(c Chain) {
	if c.Licence == "" {
		return
	}
	e := element{"simplelicensing_licenseText": "The publisher declares the licence " + c.Licence + "; its text is in the published files."}
	kind := "simplelicensing_SimpleLicensingText"
	if id, ok := spdxLicence(c.Licence); ok {
		kind, e = "simplelicensing_LicenseExpression", element{"simplelicensing_licenseExpression": id}
	}
	licence := w.add(kind, "licence", e)
	for _, m := range append([]Made{c.Artifact}, c.Ancestors...) {
		how := "hasConcludedLicense"
		if m.Uses == "acquire" {
			how = "hasDeclaredLicense"
		}
		w.relate(w.id("model-", m.Digest), how, licence)
	}
}

func (w *spdx) corpus(c Chain, n Named) {
	id := w.add("dataset_DatasetPackage", "corpus-"+n.Digest.Encoded(), element{"name": n.Name, "dataset_datasetType": []string{"text"}, "software_primaryPurpose": "data", "verifiedUsing": hash(n.Digest)})
	w.relate(w.id("model-", c.Artifact.Digest), "testedOn", id)
}

func (w *spdx) build(m Made) {
	e := element{"name": m.Stage, "build_buildType": schemas.BuildType(m.Uses), "build_buildId": m.Bundles[0].String(),
		"build_buildStartTime": stamp(m.Start), "build_buildEndTime": stamp(m.End)}
	var parties []element
	for i, b := range m.Bundles {
		parties = append(parties, entry("provenance signed by "+m.Signers[i], b.String()))
	}
	e["build_parameter"] = parties
	id := w.add("build_Build", "build-"+m.Digest.Encoded(), e)
	w.relate(id, "hasOutput", w.id("model-", m.Digest))
	for _, d := range m.Inputs {
		w.relate(id, "hasInput", w.id("model-", d))
	}
	for _, t := range m.Tools {
		if !w.seen[t.Digest] {
			w.seen[t.Digest] = true
			w.add("software_File", "tool-"+t.Digest.Encoded(), element{"name": t.Name, "software_primaryPurpose": "executable", "verifiedUsing": hash(t.Digest)})
		}
		w.relate(id, "usesTool", w.id("tool-", t.Digest))
	}
}
