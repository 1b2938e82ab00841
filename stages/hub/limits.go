package hub

import "time"

// Bounds on what an endpoint can make us read, hold or wait for.
const (
	maxListingBytes = 32 << 20 // JSON of one listing
	maxFiles        = 100_000
	maxNameBytes    = 1024
	maxHeaderBytes  = 64 << 10
	maxRedirects    = 5
	maxMessage      = 200 // bytes of an error message of the Hub that we repeat
	maxParallel     = 8
	pathsPerRequest = 500

	defaultAttempts = 5
	defaultPause    = 500 * time.Millisecond
	defaultIdle     = 60 * time.Second
	maxPause        = 30 * time.Second
	maxRetryAfter   = 2 * time.Minute
)
