package derive

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

func digestOf(t *testing.T, path string) godigest.Digest {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return godigest.NewDigestFromBytes(godigest.SHA256, sum.Sum(nil))
}

// TestTheWholeFileIsRecomputed holds the claimed digest against the file's own.
func TestTheWholeFileIsRecomputed(t *testing.T) {
	hf, odd := Input{Snapshot: os.DirFS(grouped(t, "hf"))}, shared.Path(t, "data", "llama-odd")
	oddFile := readFile(t, filepath.Join(odd, "BF16.gguf"))
	matrix := withMatrix(t, grouped(t, "imatrix.gguf"))
	for i, c := range []struct {
		name   string
		source Input
		target string
		with   Options
		recipe string
		given  []string
	}{
		{"snapshot to BF16", hf, grouped(t, "BF16.gguf"), Options{}, "BF16", []string{"general.name"}},
		{"snapshot to Q8_0", hf, grouped(t, "Q8_0.gguf"), Options{}, "Q8_0", []string{"general.name"}},
		{"snapshot to the converter's Q8_0", hf, grouped(t, "converter", "Q8_0.gguf"), Options{}, "Q8_0", []string{"general.name"}},
		{"snapshot to Q4_K_M", hf, grouped(t, "Q4_K_M.gguf"), Options{}, "Q4_K_M", []string{"general.name"}},
		{"BF16 to itself", gguf1(t, "BF16.gguf"), grouped(t, "BF16.gguf"), Options{}, "BF16", []string{}},
		{"BF16 to Q6_K", gguf1(t, "BF16.gguf"), grouped(t, "Q6_K.gguf"), Options{}, "Q6_K", []string{}},
		{"BF16 to IQ4_XS", gguf1(t, "BF16.gguf"), grouped(t, "IQ4_XS.gguf"), Options{}, "IQ4_XS", []string{}},
		{"BF16 to Q4_K_M with the matrix", gguf1(t, "BF16.gguf"), grouped(t, "Q4_K_M-im.gguf"), matrix, "Q4_K_M", []string{matrixFileKey, matrixDatasetKey}},
		{"BF16 to pure Q4_K", gguf1(t, "BF16.gguf"), grouped(t, "more", "Q4_K-pure.gguf"), Options{}, "Q4_K_M --pure", []string{}},
		{"a build with fused multiply-add", gguf1(t, "BF16.gguf"), grouped(t, "fma-build", "Q6_K.gguf"), Options{}, "Q6_K", []string{}},
		{"rows that 256 does not divide", Input{GGUF: &oddFile}, filepath.Join(odd, "Q4_K_M.gguf"), Options{}, "Q4_K_M", []string{}},
	} {
		if i%thin != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := readFile(t, c.target)
			r, err := Compare(t.Context(), c.source, Input{GGUF: &file}, c.with)
			if err != nil {
				t.Fatal(err)
			}
			if r.Class != ClassA || r.Whole == nil || !r.Whole.Fits {
				t.Fatalf("got %q, class %q, whole file %v; want class A with the whole file", r.Kind, r.Class, r.Whole)
			}
			if want := digestOf(t, c.target); r.Whole.Digest != want || r.Whole.Size != file.Size {
				t.Errorf("got %s of %d bytes with %v, want the target's %s of %d", r.Whole.Digest, r.Whole.Size, r.Whole.Findings, want, file.Size)
			}
			if !slices.Equal(r.Whole.Given, c.given) {
				t.Errorf("got the keys %v as claimed, want %v", r.Whole.Given, c.given)
			}
			if !r.Recipe.Exact || r.Recipe.Name != c.recipe || r.Recipe.Claim != "" {
				t.Errorf("got recipe %+v, want exactly %s", r.Recipe, c.recipe)
			}
		})
	}
}

// TestAHeaderThatIsNotTheToolsIsNamed: tensors are class A, the whole file is not claimed, and the key is named.
func TestAHeaderThatIsNotTheToolsIsNamed(t *testing.T) {
	arithmetic(t)
	for _, c := range []struct {
		name   string
		change func(t *testing.T, r *rewritten)
		where  string
	}{
		{"a key of another value", func(t *testing.T, r *rewritten) { r.set("general.size_label", gguf.String("70B")) }, "key general.size_label"},
		{"a key more", func(t *testing.T, r *rewritten) { r.set("general.author", gguf.String("somebody")) }, "key general.author"},
		{"a key less", func(t *testing.T, r *rewritten) { r.drop("general.size_label") }, "key general.size_label"},
		{"another label", func(t *testing.T, r *rewritten) { r.set("general.file_type", gguf.Uint32(14)) }, "key general.file_type"},
		{"tensors in another order", func(t *testing.T, r *rewritten) { r.tensors[3], r.tensors[4] = r.tensors[4], r.tensors[3] }, "byte "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			product := rewrite(t, grouped(t, "Q6_K.gguf"), c.change)
			r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), Input{GGUF: &product}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Class != ClassA || r.Whole == nil || r.Whole.Fits || r.Whole.Digest != "" || len(r.Whole.Findings) != 1 {
				t.Fatalf("got class %q, whole %+v; want class A, no digest and one finding", r.Class, r.Whole)
			}
			if f := r.Whole.Findings[0]; len(f.Where) < len(c.where) || f.Where[:len(c.where)] != c.where {
				t.Errorf("got %s, want %s named", f, c.where)
			}
		})
	}
}

// TestTheWholeFileNeedNotBeHashed: without a digest the header is held all the same.
func TestTheWholeFileNeedNotBeHashed(t *testing.T) {
	file := readFile(t, grouped(t, "Q8_0.gguf"))
	r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), Input{GGUF: &file}, Options{NoDigest: true})
	if err != nil || r.Whole == nil || !r.Whole.Fits || r.Whole.Digest != "" || r.Whole.Size != file.Size {
		t.Fatalf("got %+v, %v; want the whole file without a digest", r.Whole, err)
	}
	file = rewrite(t, grouped(t, "Q8_0.gguf"), func(_ *testing.T, r *rewritten) { r.set("general.size_label", gguf.String("70B")) })
	if r, err = Compare(t.Context(), gguf1(t, "BF16.gguf"), Input{GGUF: &file}, Options{NoDigest: true}); err != nil || r.Whole == nil || r.Whole.Fits || len(r.Whole.Findings) != 1 {
		t.Errorf("got %+v, %v; want the key named", r.Whole, err)
	}
}
