package attest

// Limits of what is read, in one place. They are checked before any work that
// grows with the input.
const (
	// MaxPayloadBytes bounds a signed Statement, in bytes.
	MaxPayloadBytes = 16 << 20
	// MaxBundleBytes bounds a bundle: a payload in base64 and the verification material, in bytes.
	MaxBundleBytes = 24 << 20
	// MaxSubjects bounds the subjects of one Statement.
	MaxSubjects = 100_000
	// MaxDigests bounds the digests of one ResourceDescriptor.
	MaxDigests = 32
	// MaxDepth bounds the nesting of objects and arrays in JSON.
	MaxDepth = 64
	// MaxNameBytes bounds the name of a subject, in bytes.
	MaxNameBytes = 4096
)
