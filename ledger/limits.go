package ledger

// Limits on what is read and written. Writer, parsers and [Log.Verify] share
// them, so nothing can be appended that could not be read back.
const (
	MaxEntries            = 1 << 40   // entries of a log; package tlog does not end on sizes near 2^63
	MaxBundleBytes        = 16 << 20  // bytes of one bundle
	MaxBatchEntries       = 10_000    // bundles of one AppendAll
	MaxBatchBytes         = 256 << 20 // bytes of them together
	MaxRefs               = 100_000   // subjects of one entry, and likewise its dependencies
	MaxNameBytes          = 4096      // bytes of one Ref's name
	MaxPredicateTypeBytes = 1024      // bytes of a predicate type
	MaxLeafBytes          = 8 << 10   // bytes of one canonical leaf
	MaxCheckpointBytes    = 64 << 10  // bytes of a signed checkpoint with its cosignatures
	MaxProofBytes         = 128 << 10 // bytes of a tlog-proof with its checkpoint
	MaxProofHashes        = 63        // hashes of an inclusion proof; a tree of 2^63 leaves needs no more
	MaxOriginBytes        = 255       // bytes of an origin line

	MaxFound      = 10_000    // entries that one Find returns
	MaxFoundBytes = 512 << 20 // bytes of bundles that one Find returns
	MaxGraphNodes = 100_000   // nodes of one lineage graph
	MaxGraphRefs  = 1_000_000 // digests named by the edges of one lineage graph
	MaxNodeNames  = 16        // names kept for one node of a lineage graph
	MaxFindings   = 1000      // findings of one verification
	maxConflicts  = 10_000    // lost races of one append before it gives up
)
