//go:build !race

package derive

// thin: without the race detector tables are run whole.
const thin = 1
