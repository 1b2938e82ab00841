package quant

import "math"

// The types of one and two bits as ggml writes them, without a search: nothing
// is added to a product, so that no build can differ. Reference:
// quantize_row_tq1_0_ref, _tq2_0_ref, _q1_0_ref and _q2_0_ref in ggml.

// peakAnew is the largest magnitude so far where each NaN starts it anew, as a
// comparison that NaNs fail gives it; a NaN at the end stays.
func peakAnew(src []float32) float32 {
	var top float32
	for _, x := range src {
		if m := magnitude(x); !(top > m) {
			top = m
		}
	}
	return top
}

// inverse is 1/d, and 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// trit is x rounded to the nearest integer, halves away from zero, plus one, in
// the low eight bits: 0, 1 or 2 for weights within the scale. What a 64-bit integer does not
// hold counts as 0, as on x86-64, where C leaves it undefined.
func trit(x float32) byte {
	if x > -1<<31 && x < 1<<31 {
		return byte(roundAway(x) + 1)
	}
	if x > -1<<63 && x < 1<<63 {
		return byte(int64(x) + 1) // whole already
	}
	return 1
}

// packTrits packs count ternary digits a byte, the first the most significant,
// as the fixed-point fraction in base 3 that placeTrits reads.
func packTrits(dst []byte, src []float32, id float32, count int) []float32 {
	for i := range dst {
		var q byte
		for n := range 5 {
			q *= 3
			if n < count {
				q += trit(float32(src[i+n*len(dst)] * id))
			}
		}
		dst[i] = byte((int(q)*256 + 242) / 243)
	}
	return src[count*len(dst):]
}

func quantizeTQ1_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst = dst[54:] {
		d := peakAnew(src[:256])
		id := inverse(d)
		src = packTrits(dst[:32], src, id, 5)
		src = packTrits(dst[32:48], src, id, 5)
		src = packTrits(dst[48:52], src, id, 4)
		putHalf(dst[52:], d)
	}
}

func quantizeTQ2_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst = dst[66:] {
		d := peakAnew(src[:256])
		id := inverse(d)
		for i := range 64 {
			weights := src[i/32*128+i%32:]
			var q byte
			for n := range 4 {
				q |= trit(float32(weights[n*32]*id)) & 3 << (2 * n)
			}
			dst[i] = q
		}
		putHalf(dst[64:], d)
		src = src[256:]
	}
}

func quantizeQ2_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[18:], src[64:] {
		_, d := peak(src[:64])
		id := inverse(d)
		for i := range 16 {
			var q int32
			for n, x := range src[4*i:][:4] {
				q |= clamp(wholeQ2(float32(x*id))+1, 0, 3) << (2 * n)
			}
			dst[2+i] = byte(q)
		}
		putHalf(dst, d)
	}
}

// wholeQ2 rounds to the nearest integer, halves away from zero; what an int32
// does not hold becomes its smallest, as on x86-64.
func wholeQ2(x float32) int32 {
	if x > -1<<31 && x < 1<<31 {
		return roundAway(x)
	}
	return math.MinInt32
}

func quantizeQ1_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[18:], src[128:] {
		var sum float32
		for _, x := range src[:128] {
			sum += magnitude(x)
		}
		putHalf(dst, sum/128)
		for i := range 16 {
			var q byte
			for n, x := range src[8*i:][:8] {
				if x >= 0 {
					q |= 1 << n
				}
			}
			dst[2+i] = q
		}
	}
}
