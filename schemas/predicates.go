package schemas

import godigest "github.com/opencontainers/go-digest"

// Withdrawal takes an earlier claim back. The Statement's subject is the
// withdrawn artifact. Schema: withdrawal.v1.json.
type Withdrawal struct {
	Claim     godigest.Digest `json:"claim"` // PAE digest of the withdrawn envelope
	Reason    string          `json:"reason"`
	Successor godigest.Digest `json:"successor,omitempty"` // digest of the artifact to use instead
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
}

// DeliveredFile is one accepted artifact at its destination.
type DeliveredFile struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
	Size   int64           `json:"size"` // bytes
}
