//go:build race

package derive

// thin makes tables over whole files take one row in thin, because the race detector
// slows arithmetic tenfold and one row shows what is concurrent.
const thin = 40
