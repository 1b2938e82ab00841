//go:build race

package ledger_test

// stride thins out the loops over faults for the race detector, which makes
// SQLite ten times slower; without it each fault is injected.
const stride, straceStride = 41, 64
