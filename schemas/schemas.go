// Package schemas has a JSON Schema and a Go type for every document that we
// write or read: kernel reports, stage results, pipelines, policies, trust
// files, fixtures and the predicates of our own. The schema files lie beside
// the Go files; a document is valid only if both accept it.
package schemas

// BaseURI is the start of every URI that this project mints. The kernels and
// attest rooms import nothing local; a test holds their spelling against this one.
const BaseURI = "https://github.com/weighmaster/weighmaster/"

// URIs of the documents.
const (
	ReportURI     = BaseURI + "schema/report/v1"
	ResultURI     = BaseURI + "schema/result/v1"
	PipelineURI   = BaseURI + "schema/pipeline/v1"
	PolicyURI     = BaseURI + "schema/policy/v1"
	TrustURI      = BaseURI + "schema/trust/v1"
	FixturesURI   = BaseURI + "schema/fixtures/v1"
	ManifestURI   = BaseURI + "schema/manifest/v1"
	ListingURI    = BaseURI + "schema/listing/v1"
	EvidenceURI   = BaseURI + "schema/policy-evidence/v1"
	ReviewURI     = BaseURI + "review/v1"     // predicate type
	CompletionURI = BaseURI + "completion/v1" // predicate type
	WithdrawalURI = BaseURI + "withdrawal/v1" // predicate type
)

// BuildType returns the SLSA buildType of a stage type, e.g. …/stage/quantize/v1.
func BuildType(uses string) string { return BaseURI + "stage/" + uses + "/v1" }

// Verdict is the outcome of a check: passed, failed or undecided. Undecided never allows anything.
type Verdict string

const (
	Passed    Verdict = "passed"
	Failed    Verdict = "failed"
	Undecided Verdict = "undecided"
)
