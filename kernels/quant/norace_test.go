//go:build !race

package quant

const thin = 1
