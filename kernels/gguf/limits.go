package gguf

// Limits of what is read, all far above anything a real file holds. A number
// that was read from a file is compared with the bytes that remain and with
// these before anything is allocated for it, and memory grows with the bytes
// that were really read, never with what a length promises.
const (
	MaxKVs       = 1 << 16 // key-value pairs
	MaxTensors   = 1 << 20 // tensors
	MaxKey       = 1<<16 - 1
	MaxName      = 1<<16 - 1 // bytes of a tensor name; see also [NameWarning]
	MaxString    = 64 << 20  // bytes of one string value
	MaxElements  = 1 << 22   // elements of one array
	MaxDepth     = 4         // arrays within arrays
	MaxDims      = 4         // dimensions of a tensor
	MaxHeader    = 1 << 28   // bytes before the tensor data
	MaxAlignment = 1 << 20   // bytes
	MaxParts     = 1<<16 - 1 // files of a split model

	// NameWarning is the length in bytes from which llama.cpp refuses a tensor name.
	NameWarning = 64
	// DefaultAlignment is the alignment in bytes of a file without general.alignment.
	DefaultAlignment = 32
)
