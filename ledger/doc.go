// Package ledger is an append-only Merkle log of signed bundles, with queries
// over what was made of what.
//
// # What is in the tree
//
// A leaf is the RFC 8785 JSON of [Leaf]: the digest of what was signed (the
// DSSE pre-authentication encoding), the digest of the bundle that holds the
// signature, the predicate type and the second at which it was appended. Leaf
// and node hashes follow RFC 6962 section 2.1 (SHA-256, prefixes 0x00 and
// 0x01), computed by golang.org/x/mod/sumdb/tlog.
//
// # What proves it
//
// The database proves nothing about itself: whoever can write to it can write
// anything. What proves the log are its checkpoints (C2SP tlog-checkpoint,
// signed notes) that are kept outside the [Store], see [Checkpoints]. Opening
// compares the stored tree with the newest of them, [Log.Verify] compares
// every stored byte with all of them. A tree that does not extend a checkpoint
// that was signed is a [Contradiction], which carries both sides.
//
// A log that shows different people different histories, or that is set back
// together with its checkpoints, contradicts nothing that lies in one place.
// Witnesses do not let it: package witness asks them to cosign a checkpoint
// (C2SP tlog-witness), [Log.AddCosignatures] keeps their signatures with it, and
// [Cosignatures] counts them. Package tiles publishes the whole tree.
//
// # Order of writes
//
// An append first becomes durable in the store, in one transaction; only then
// is a checkpoint over it signed and written outside. After a crash between
// the two the tree is ahead of the newest checkpoint, never behind it. The
// next writer re-derives the entries that no checkpoint covers, checks that
// the tree extends the old checkpoint, and signs a new one.
//
// # Evolution
//
// A leaf of another shape gets another type URI than [LeafType]; readers
// refuse types that they do not know.
package ledger
