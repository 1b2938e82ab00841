package quant

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A multiplication and an addition with one rounding: by its arm64 name, and by its bytes for amd64, which
// the disassembler does not know (VEX prefix of map 0F38 with 66, scalar opcodes 99 to BF).
var (
	fusedName  = regexp.MustCompile(`\bFN?M(ADD|SUB)[SD]\b|\bVFML[AS]\b`)
	fusedBytes = regexp.MustCompile(`^(..)*c4[02468ace]2.[19][9ab][9bdf]`)
)

// TestCompilerFusesNothing builds the quantizers for platforms whose compiler fuses x*y + z and looks
// for such instructions in their machine code. A planted one must be found.
func TestCompilerFusesNothing(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("the go command is missing")
		}
		t.Skip("needs the go command")
	}
	for _, c := range []struct{ arch, level string }{{"arm64", ""}, {"amd64", "v3"}} {
		t.Run(c.arch+c.level, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "program")
			run := func(args ...string) []byte {
				cmd := exec.Command(goTool, args...)
				cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+c.arch, "CGO_ENABLED=0")
				if c.level != "" {
					cmd.Env = append(cmd.Env, "GOAMD64="+c.level)
				}
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, err.(*exec.ExitError).Stderr)
				}
				return out
			}
			run("build", "-o", program, "./testdata/fuse")
			code := run("tool", "objdump", "-s", `^main\.planted|kernels/quant\.`, program)
			found, functions := fusedIn(code)
			t.Logf("%d functions", functions)
			if functions < 100 {
				t.Errorf("%d functions read, want all of the package", functions)
			}
			if want := []string{"main.planted"}; fmt.Sprint(found) != fmt.Sprint(want) {
				t.Errorf("functions with fused products: %v, want only the planted one", found)
			}
		})
	}
}

// fusedIn names the functions of a disassembly with fused instructions and counts all.
func fusedIn(code []byte) (found []string, functions int) {
	for text := range bytes.SplitSeq(code, []byte("TEXT ")) {
		name, body, ok := strings.Cut(string(text), "(SB)")
		if !ok {
			continue
		}
		functions++
		var machine strings.Builder
		for line := range strings.Lines(body) {
			// Place, address, bytes, instruction.
			if fields := strings.Fields(line); len(fields) > 3 {
				machine.WriteString(fields[2])
			}
		}
		if fusedName.MatchString(body) || fusedBytes.MatchString(machine.String()) {
			found = append(found, name)
		}
	}
	return found, functions
}

// TestFusedRoundsOnce compares with exact arithmetic, above all where rounding twice goes wrong:
// sums next to the middle of two float32 numbers, also subnormal ones.
func TestFusedRoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	twice := 0
	check := func(x, y, z float32) {
		t.Helper()
		exact := new(big.Float).SetPrec(600).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.Add(exact, big.NewFloat(float64(z)))
		want, _ := exact.Float32()
		if got := fused(x, y, z); got != want {
			t.Fatalf("%g·%g + %g: got %g, want %g", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			twice++
		}
	}
	for range 300000 {
		x, y := float32(r.NormFloat64()), float32(r.NormFloat64())
		check(x, y, float32(r.NormFloat64()*math.Exp(r.NormFloat64()*8)))
	}
	for range 300000 {
		// A power of two times an odd number near 2^24 gives z's half step; a tiny remainder decides.
		z := float32(1<<23 + r.IntN(1<<23))
		x := math.Float32frombits(0x3F000000) // 0.5, the half step of z
		x = math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(3)) - 1)
		y := math.Float32frombits(0x3F800000 + uint32(r.IntN(5)) - 2)
		scale := float32(math.Ldexp(1, r.IntN(250)-172))
		check(x, float32(y*scale), float32(z*scale))
		check(-x, float32(y*scale), float32(z*scale))
	}
	for range 100000 {
		// Two products of 24 bits each below the smallest step of a sum.
		a, b := float32(1<<23+r.IntN(1<<23)), float32(1<<23+r.IntN(1<<23))
		check(float32(a*float32(math.Ldexp(1, -60))), float32(b*float32(math.Ldexp(1, -60-r.IntN(30)))), float32(math.Ldexp(float64(r.IntN(64)), -149)))
	}
	if twice == 0 {
		t.Error("no case where rounding twice goes wrong: the test shows nothing")
	}
	t.Logf("rounding twice goes wrong in %d cases", twice)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if fused(inf, 1, 1) != inf || fused(1, 1, -inf) != -inf || fused(inf, 0, 1) == fused(inf, 0, 1) || fused(1, nan, 1) == fused(1, nan, 1) {
		t.Error("infinities and NaNs do not pass")
	}
}
