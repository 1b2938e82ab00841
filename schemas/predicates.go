package schemas

import (
	"time"

	godigest "github.com/opencontainers/go-digest"
)

// Withdrawal takes an earlier claim back. The Statement's subject is the
// withdrawn artifact. Schema: withdrawal.v1.json.
type Withdrawal struct {
	Claim     godigest.Digest `json:"claim"` // PAE digest of the withdrawn envelope
	Reason    string          `json:"reason"`
	Successor godigest.Digest `json:"successor,omitempty"` // digest of the artifact to use instead
}

// Review is a person's word on an artifact, which is the Statement's subject.
// in-toto has a proposed human-review predicate with result, link and time; it
// was never vetted and has no place for what the reviewer looked at or says, so
// that this one is ours. Schema: review.v1.json.
type Review struct {
	Verdict  Verdict   `json:"verdict"`  // passed or failed
	Note     string    `json:"note"`     // what was looked at, and what was found
	Reviewed time.Time `json:"reviewed"` // by the reviewer's clock
	Link     string    `json:"link,omitempty"`
}

// Completion says that a whole run is finished: delivered, reloaded and
// released. The Statement's subjects are the delivered artifacts. Schema: completion.v1.json.
type Completion struct {
	Pipeline   godigest.Digest   `json:"pipeline"` // of pipeline.yaml's bytes
	Policy     godigest.Digest   `json:"policy"`
	Finished   []godigest.Digest `json:"finished"` // PAE digests of every stage claim of the run, in log order
	Delivered  []DeliveredFile   `json:"delivered"`
	Checkpoint string            `json:"checkpoint"` // the log's signed checkpoint before this entry
	Compute    string            `json:"compute"`    // "none rented" or the release claim's PAE digest
	Record     *CompletionRecord `json:"record,omitempty"`
}

// DeliveredFile is one accepted artifact at its destination.
type DeliveredFile struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
	Size   int64           `json:"size"` // bytes
}
