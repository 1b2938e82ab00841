//go:build race

package quant

// thin makes the tests over whole files look at one row in thin, because the race
// detector slows arithmetic tenfold and there is nothing concurrent in it to find.
const thin = 32
