//go:build !race

package ledger_test

const stride = 1
