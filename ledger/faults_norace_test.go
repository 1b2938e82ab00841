//go:build !race

package ledger_test

const stride, straceStride = 1, 1
