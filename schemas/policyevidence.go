package schemas

import (
	"time"

	godigest "github.com/opencontainers/go-digest"
)

// PolicyEvidence is everything that a decision looks at, as one document, for
// those who decide with an engine of their own. Every claim in it verified: its
// signature is right and the trust file names its functionary. Every result,
// report and listing hashes to what its Statement says. What the claims say, and
// whether it is enough, is for the reader to judge. Lists are in log order.
// Schema: policy-evidence.v1.json.
type PolicyEvidence struct {
	Schema      string              `json:"schema"`
	Question    PolicyQuestion      `json:"question"`
	Policy      Policy              `json:"policy"`
	Log         PolicyLog           `json:"log"`
	Claims      []PolicyClaim       `json:"claims"`
	Runs        []PolicyRun         `json:"runs"`
	Summaries   []PolicySummary     `json:"summaries"`
	Completions []PolicyCompletion  `json:"completions"`
	Reviews     []PolicyReview      `json:"reviews"`
	Attributes  []PolicyAttributes  `json:"attributes"`
	Withdrawals []PolicyWithdrawal  `json:"withdrawals"`
	Witnesses   []PolicyCosignature `json:"witnesses"`
	Unreadable  []PolicyUnreadable  `json:"unreadable"`
}

// PolicyQuestion is what is asked.
type PolicyQuestion struct {
	Decision string          `json:"decision"`
	Class    string          `json:"class"`
	Artifact godigest.Digest `json:"artifact"`
	Policy   godigest.Digest `json:"policy"` // sha256 of policy.yaml's bytes
	At       time.Time       `json:"at"`
}

// PolicyLog tells how much of the log is here. Size is in entries; 0 when nobody vouches for one.
type PolicyLog struct {
	Size  int64 `json:"size"`
	Whole bool  `json:"whole"` // every entry is among the claims
}

// PolicyClaim is one verified Statement of one signer.
type PolicyClaim struct {
	Bundle        godigest.Digest  `json:"bundle"`
	PAE           godigest.Digest  `json:"pae"` // what was said: equal for two signers of one Statement
	Functionary   string           `json:"functionary"`
	Key           godigest.Digest  `json:"key"`
	PredicateType string           `json:"predicateType"`
	Subjects      []PolicyArtifact `json:"subjects"`
	Index         *int64           `json:"index,omitempty"`    // in the log
	Appended      *time.Time       `json:"appended,omitempty"` // by the log's clock
	SignedAt      *time.Time       `json:"signedAt,omitempty"` // by a timestamp
	// Withdrawn tells that a withdrawal counts against this claim: it is not to be looked at.
	Withdrawn bool `json:"withdrawn"`
}

// PolicyArtifact is a name with its sha256, which is empty where there is none.
type PolicyArtifact struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
}

// PolicyRun is one stage run: every claim of one provenance Statement.
type PolicyRun struct {
	PAE       godigest.Digest   `json:"pae"`
	Claims    []godigest.Digest `json:"claims"` // bundles
	Withdrawn bool              `json:"withdrawn"`
	Stage     string            `json:"stage"`
	Uses      string            `json:"uses"`
	Publisher *Publisher        `json:"publisher,omitempty"`
	Finished  *time.Time        `json:"finished,omitempty"`
	Subjects  []PolicyArtifact  `json:"subjects"`
	Inputs    []PolicyArtifact  `json:"inputs"`           // named by role
	Needs     []PolicyNeed      `json:"needs"`            // what else went in
	Result    *Result           `json:"result,omitempty"` // missing where it cannot be read
	Reports   []Report          `json:"reports"`
	Listing   *Listing          `json:"listing,omitempty"` // of an acquire run
	// Missing says which results, reports and listings cannot be read, and why.
	Missing []string `json:"missing"`
}

// PolicyNeed is a tool, library, source, patch or text that went into a run, its role in its name.
type PolicyNeed struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`           // empty where there is no sha256
	Commit string          `json:"commit,omitempty"` // of a source
}

// PolicyAttributes is what somebody stated of the box that a probe looked at (SCAI).
type PolicyAttributes struct {
	Bundle   godigest.Digest  `json:"bundle"`
	Asserted []PolicyAsserted `json:"asserted"`
}

// PolicyAsserted is one attribute with the conditions under which it was shown; empty where they are not said.
type PolicyAsserted struct {
	Attribute string `json:"attribute"`
	Method    string `json:"method"`
	Boot      string `json:"boot"`
	Admitted  string `json:"admitted"`
}

// PolicySummary is a decision that somebody took (SLSA Verification Summary).
type PolicySummary struct {
	Bundle   godigest.Digest   `json:"bundle"`
	URI      string            `json:"uri"` // of the policy, decision and class
	Policy   godigest.Digest   `json:"policy"`
	Result   string            `json:"result"` // PASSED or FAILED
	Levels   []string          `json:"levels"`
	RestsOn  []godigest.Digest `json:"restsOn"` // bundles
	Verified *time.Time        `json:"verified,omitempty"`
	// Fallen: it rests on what was taken back, itself or by way of another decision, and counts no more.
	Fallen bool `json:"fallen,omitempty"`
}

// PolicyCompletion is a run's end.
type PolicyCompletion struct {
	Bundle    godigest.Digest   `json:"bundle"`
	Policy    godigest.Digest   `json:"policy"`
	Finished  []godigest.Digest `json:"finished"` // PAE digests
	Delivered []PolicyArtifact  `json:"delivered"`
	Compute   string            `json:"compute"` // "none rented", or the PAE digest of the release
	// Recorded: it holds a record of what the run was made of, and the claims that it lists say the same.
	Recorded bool `json:"recorded"`
	Fallen   bool `json:"fallen,omitempty"`
}

// PolicyReview is a person's word.
type PolicyReview struct {
	Bundle godigest.Digest `json:"bundle"`
	Review
}

// PolicyWithdrawal takes a claim back, if it counts.
type PolicyWithdrawal struct {
	Bundle    godigest.Digest `json:"bundle"`
	Claim     godigest.Digest `json:"claim"` // PAE digest
	Reason    string          `json:"reason"`
	Successor godigest.Digest `json:"successor,omitempty"`
	Counts    bool            `json:"counts"` // its signer may take that claim back
}

// PolicyCosignature is a witness's verified word for the log's checkpoint.
type PolicyCosignature struct {
	Name string    `json:"name"`
	Time time.Time `json:"time"`
}

// PolicyUnreadable is a claim whose predicate says nothing that can be judged.
type PolicyUnreadable struct {
	Bundle godigest.Digest `json:"bundle"`
	Why    string          `json:"why"`
}
