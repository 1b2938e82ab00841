package bom

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// CycloneDX writes the chain as a CycloneDX 1.6 document in JSON: the artifact
// as a machine-learning-model with its model card, its lineage as
// pedigree.ancestors, the stages as a formulation. The same chain gives the same
// bytes.
func CycloneDX(c Chain) ([]byte, error) {
	doc := cdx.NewBOM()
	doc.SpecVersion = cdx.SpecVersion1_6
	doc.JSONSchema = "http://cyclonedx.org/schema/bom-1.6.schema.json"
	doc.SerialNumber = "urn:uuid:" + uuid(c)
	component := c.component(c.Artifact)
	component.Pedigree = c.pedigree()
	component.ModelCard = c.modelCard()
	component.Licenses = licences(c.Licence, cdx.LicenseAcknowledgementConcluded)
	component.ExternalReferences = c.attestations()
	tool := cdx.Component{Type: cdx.ComponentTypeApplication, Name: "weighmaster", Version: c.Tool}
	doc.Metadata = &cdx.Metadata{
		Timestamp: c.Artifact.End.UTC().Format(time.RFC3339),
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{tool}},
		Component: &component,
	}
	if tested := c.tested(); len(tested) > 0 {
		doc.Components = &tested
	}
	doc.Formulation = &[]cdx.Formula{c.formula()}
	var out bytes.Buffer
	enc := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := enc.EncodeVersion(doc, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("CycloneDX: %w", err)
	}
	return out.Bytes(), nil
}

// uuid is the document's identity: a version 8 UUID (RFC 9562, section 5.8) of
// what it is about.
func uuid(c Chain) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v\n%v\n", c.Artifact.Digest, c.Artifact.Bundles, c.Metrics)
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func ref(d godigest.Digest) string { return "urn:" + d.String() }

func hashes(d godigest.Digest) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: d.Encoded()}}
}

func property(name, value string) cdx.Property {
	return cdx.Property{Name: "weighmaster:" + name, Value: value}
}

// component is one artifact. A folder's digest is its manifest's, no file's, and
// so a property; its files carry the hashes.
func (c Chain) component(m Made) cdx.Component {
	component := cdx.Component{BOMRef: ref(m.Digest), Type: cdx.ComponentTypeMachineLearningModel, Name: m.Name}
	properties := []cdx.Property{property("stage", m.Stage), property("stageType", m.Uses)}
	if m.Type != "" {
		properties = append(properties, property("weightType", m.Type))
	}
	if len(m.Files) == 0 {
		component.Hashes = hashes(m.Digest)
	} else {
		properties = append(properties, property("manifest:sha256", m.Digest.Encoded()))
		files := make([]cdx.Component, len(m.Files))
		for i, f := range m.Files {
			files[i] = cdx.Component{BOMRef: ref(m.Digest) + "#" + strconv.Itoa(i), Type: cdx.ComponentTypeFile, Name: f.Name, Hashes: hashes(f.Digest)}
		}
		component.Components = &files
	}
	for _, s := range m.Signers {
		properties = append(properties, property("signedBy", s))
	}
	component.Properties = &properties
	return component
}

func (c Chain) pedigree() *cdx.Pedigree {
	var list []cdx.Component
	for _, m := range c.Ancestors {
		component := c.component(m)
		if m.Uses == "acquire" {
			component.Name, component.Version, component.PackageURL = c.Repository, c.Revision, c.purl()
			component.Licenses = licences(c.Licence, cdx.LicenseAcknowledgementDeclared)
		}
		list = append(list, component)
	}
	return &cdx.Pedigree{Ancestors: &list}
}

func licences(declared string, how cdx.LicenseAcknowledgement) *cdx.Licenses {
	if declared == "" {
		return nil
	}
	l := &cdx.License{Name: declared, Acknowledgement: how}
	if id, ok := spdxLicence(declared); ok {
		l.ID, l.Name = id, ""
	}
	return &cdx.Licenses{{License: l}}
}

func (c Chain) modelCard() *cdx.MLModelCard {
	card := &cdx.MLModelCard{}
	if c.Architecture != "" {
		card.ModelParameters = &cdx.MLModelParameters{ArchitectureFamily: c.Architecture}
	}
	var metrics []cdx.MLPerformanceMetric
	for _, m := range c.Metrics {
		metrics = append(metrics, cdx.MLPerformanceMetric{Type: m.Kernel + ": " + m.Name, Value: number(m.Value) + " " + m.Unit, Slice: m.Identity})
	}
	if len(metrics) > 0 {
		card.QuantitativeAnalysis = &cdx.MLQuantitativeAnalysis{PerformanceMetrics: &metrics}
	}
	if len(c.Limits) > 0 {
		card.Considerations = &cdx.MLModelCardConsiderations{TechnicalLimitations: &c.Limits}
	}
	if card.ModelParameters == nil && card.QuantitativeAnalysis == nil && card.Considerations == nil {
		return nil
	}
	return card
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// attestations name the signed claims of the chain by the digests of their bundles.
func (c Chain) attestations() *[]cdx.ExternalReference {
	var list []cdx.ExternalReference
	for _, m := range append([]Made{c.Artifact}, c.Ancestors...) {
		for _, b := range m.Bundles {
			list = append(list, cdx.ExternalReference{URL: ref(b), Type: cdx.ERTypeAttestation, Comment: "provenance of stage " + m.Stage, Hashes: hashes(b)})
		}
	}
	return &list
}

// tested are the corpora of the evaluations.
func (c Chain) tested() []cdx.Component {
	var list []cdx.Component
	for _, n := range c.Corpora {
		list = append(list, cdx.Component{BOMRef: ref(n.Digest), Type: cdx.ComponentTypeData, Name: n.Name, Hashes: hashes(n.Digest),
			Data: &[]cdx.ComponentData{{Type: cdx.ComponentDataTypeDataset, Name: n.Name}}})
	}
	return list
}

// formula has one task a stage, the publisher's first, and the tools that ran.
func (c Chain) formula() cdx.Formula {
	var tasks []cdx.Task
	var tools []cdx.Component
	seen := map[godigest.Digest]bool{}
	all := append([]Made{c.Artifact}, c.Ancestors...)
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		task := cdx.Task{BOMRef: "task:" + m.Stage, UID: m.Stage, Name: m.Stage, Description: schemas.BuildType(m.Uses), TaskTypes: &[]cdx.TaskType{taskType(m.Uses)},
			TimeStart: m.Start.UTC().Format(time.RFC3339), TimeEnd: m.End.UTC().Format(time.RFC3339),
			Outputs: &[]cdx.TaskOutput{{Type: cdx.TaskOutputTypeArtifact, Resource: &cdx.ResourceReferenceChoice{Ref: ref(m.Digest)}}}}
		var inputs []cdx.TaskInput
		for _, d := range m.Inputs {
			inputs = append(inputs, cdx.TaskInput{Resource: &cdx.ResourceReferenceChoice{Ref: ref(d)}})
		}
		if len(inputs) > 0 {
			task.Inputs = &inputs
		}
		tasks = append(tasks, task)
		for _, tool := range m.Tools {
			if !seen[tool.Digest] {
				seen[tool.Digest] = true
				tools = append(tools, cdx.Component{BOMRef: ref(tool.Digest), Type: cdx.ComponentTypeApplication, Name: tool.Name, Hashes: hashes(tool.Digest)})
			}
		}
	}
	f := cdx.Formula{Workflows: &[]cdx.Workflow{{BOMRef: "workflow", UID: "lineage", Name: "lineage", TaskTypes: &[]cdx.TaskType{cdx.TaskTypeBuild}, Tasks: &tasks}}}
	if len(tools) > 0 {
		f.Components = &tools
	}
	return f
}

func taskType(uses string) cdx.TaskType {
	if uses == "acquire" {
		return cdx.TaskTypeCopy
	}
	return cdx.TaskTypeBuild
}
