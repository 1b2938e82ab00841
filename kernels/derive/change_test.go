package derive

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestAReuploadSaysWhatChanged compares an old file with the one that replaced it.
func TestAReuploadSaysWhatChanged(t *testing.T) {
	old := func(file string, change func(r *rewritten)) Input { return withBody(t, file, change) }
	template := func(text string) func(*rewritten) {
		return func(r *rewritten) { r.set(templateKey, gguf.String(text)) }
	}
	for _, c := range []struct {
		name     string
		old, now Input
		kind     Kind
		change   string // begins so
		diff     []string
	}{
		{"nothing", gguf1(t, "Q4_K_M.gguf"), gguf1(t, "Q4_K_M.gguf"), Identical, "", nil},
		{"metadata", gguf1(t, "Q4_K_M.gguf"), old("Q4_K_M.gguf", func(r *rewritten) { r.set("general.name", gguf.String("other")) }), MetadataDiffers, "metadata only: general.name", nil},
		{"a label", gguf1(t, "Q4_K_M.gguf"), old("Q4_K_M.gguf", func(r *rewritten) { r.set("general.file_type", gguf.Uint32(14)) }), MetadataDiffers, "metadata only: general.file_type", nil},
		{"the claim about the matrix", gguf1(t, "Q4_K_M.gguf"), old("Q4_K_M.gguf", func(r *rewritten) { r.set(matrixFileKey, gguf.String("m.gguf")) }), MetadataDiffers, "metadata only: " + matrixFileKey, nil},
		{"the chat template", old("Q4_K_M.gguf", template("one\ntwo\nthree")), old("Q4_K_M.gguf", template("one\n2\nthree")), TemplateDiffers, "the chat template only", []string{"-two\n", "+2\n", " three\n"}},
		{"two tensors", gguf1(t, "Q4_K_M.gguf"), old("Q4_K_M.gguf", func(r *rewritten) {
			r.bodies[victim][1] ^= 1
			r.bodies["blk.0.ffn_up.weight"][1] ^= 1
		}), NotDerived, "these tensors: blk.0.ffn_up.weight, " + victim + "; the other 38 are the same", nil},
		{"another recipe", gguf1(t, "Q4_K_M.gguf"), gguf1(t, "Q5_K_M.gguf"), ErrorOnly, "another recipe: Q4_K_M before, Q5_K_M now; ", nil},
		{"the same recipe with a matrix", gguf1(t, "Q4_K_M.gguf"), gguf1(t, "Q4_K_M-im.gguf"), NotDerived, "28 of 40 tensors differ, but their weights lie near each other", nil},
		{"another source", gguf1(t, "Q8_0.gguf"), old("Q8_0.gguf", func(r *rewritten) {
			for _, name := range sortedNames(r.bodies) {
				slices.Reverse(r.bodies[name])
				for i := 0; i+34 <= len(r.bodies[name]); i += 34 { // keep the scales finite
					copy(r.bodies[name][i:i+2], []byte{0, 0x20})
				}
			}
		}), NotDerived, "another source", nil},
		{"tensors that are missing", gguf1(t, "BF16.gguf"), old("BF16.gguf", func(r *rewritten) { r.tensors = r.tensors[:30] }), NotDerived, "tensors are missing: 30 of 40 are there and the same; missing: ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), c.old, c.now, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || !strings.HasPrefix(r.Change, c.change) || c.change == "" && r.Change != "" {
				t.Errorf("got %q, change %q; want %q, %q\nmetadata %v", r.Kind, r.Change, c.kind, c.change, r.Metadata)
			}
			for _, part := range c.diff {
				if !strings.Contains(r.TemplateDiff, part) {
					t.Errorf("got the diff %q, want it to have %q", r.TemplateDiff, part)
				}
			}
		})
	}
}

// TestAnInterruptedFileNamesWhatIsMissing counts the tensors that are whole.
func TestAnInterruptedFileNamesWhatIsMissing(t *testing.T) {
	whole := readFile(t, grouped(t, "Q4_K_M.gguf"))
	part := File{R: io.NewSectionReader(whole.R, 0, whole.Size/2), Size: whole.Size / 2}
	r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), Input{GGUF: &part}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != NotDerived || !strings.HasPrefix(r.Change, "interrupted: ") || !strings.Contains(r.Change, " of 40 tensors are whole; missing: ") || len(r.Findings) != 1 {
		t.Errorf("got %q, change %q, %v; want the missing tensors", r.Kind, r.Change, r.Findings)
	}
}

// TestEncodedRowsThatWereMoved proves the rotary order on the blocks of two quantized files.
func TestEncodedRowsThatWereMoved(t *testing.T) {
	for _, c := range []struct {
		name  string
		order func(convert.Order, int64) convert.Order
		want  string
	}{
		{"to half-split", func(o convert.Order, n int64) convert.Order { return inverse(n, o) }, toHalfSplit},
		{"to interleaved", func(o convert.Order, _ int64) convert.Order { return o }, toInterleaved},
	} {
		for _, file := range []string{"Q8_0.gguf", "Q4_K_M.gguf", "BF16.gguf"} {
			target := withBody(t, file, func(r *rewritten) {
				r.rows("blk.1.attn_q.weight", 256, c.order(convert.HeadOrder(256, 8), 256))
				r.rows("blk.1.attn_k.weight", 64, c.order(convert.HeadOrder(64, 2), 64))
			})
			r, err := Compare(t.Context(), gguf1(t, file), target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := []Move{{"blk.1.attn_k.weight", 2, c.want}, {"blk.1.attn_q.weight", 8, c.want}}
			if r.Kind != RowsMoved || r.Class != ClassA || !slices.Equal(r.Moved, want) {
				t.Errorf("%s %s: got %q, class %q, %v; want %v", file, c.name, r.Kind, r.Class, r.Moved, want)
			}
		}
	}
}

// TestRowsInNoRotaryOrderAreNotDerived: two rows exchanged, and moved rows of which one was changed.
func TestRowsInNoRotaryOrderAreNotDerived(t *testing.T) {
	exchange := withBody(t, "Q4_K_M.gguf", func(r *rewritten) {
		r.rows("blk.1.attn_q.weight", 256, func(row int64) int64 {
			return map[int64]int64{3: 9, 9: 3}[row] + map[bool]int64{true: row}[row != 3 && row != 9]
		})
	})
	changed := withBody(t, "Q4_K_M.gguf", func(r *rewritten) {
		r.rows("blk.1.attn_q.weight", 256, convert.HeadOrder(256, 8))
		r.bodies["blk.1.attn_q.weight"][50] ^= 1
	})
	for target, want := range map[*Input]string{&exchange: "in another order, which is no rotary one", &changed: "blocks of this tensor differ"} {
		r, err := Compare(t.Context(), gguf1(t, "Q4_K_M.gguf"), *target, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != NotDerived || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].String(), want) {
			t.Errorf("got %q with %v, want not derived that says: %s", r.Kind, r.Findings, want)
		}
	}
}

// TestQuantizedFolders maps the results of the packages that know them.
func TestQuantizedFolders(t *testing.T) {
	folder := func(path string) Input { return Input{Snapshot: os.DirFS("../../fixtures/" + path)} }
	for _, c := range []struct {
		source, target string
		kind           Kind
		class          Class
	}{
		{"mlx/source", "mlx/affine-4-64", Quantization, ClassA},
		{"mlx/source", "mlx/affine-3-32", Quantization, ClassA},
		{"mlx/source", "mlx/mxfp4", Quantization, ClassA},
		{"mlx/source", "mlx/nvfp4", Quantization, ClassA},
		{"mlx/source", "mlx/from-8", NotDerived, None},
		{"mlx/affine-4-64", "mlx/affine-4-64", Identical, ClassA},
		{"mlx/affine-4-64", "mlx/mxfp4", NotDerived, None},
		{"compressed/source", "compressed/ct-fp8", ErrorOnly, ClassD},
		{"compressed/source", "compressed/modelopt-nvfp4", ErrorOnly, ClassD},
		{"compressed/ct-nvfp4", "compressed/ct-nvfp4", Identical, ClassA},
		{"compressed/modelopt-nvfp4-kv", "compressed/modelopt-nvfp4", FewerScales, ClassA},
		{"compressed/ct-fp8", "compressed/modelopt-nvfp4", NotDerived, None},
	} {
		t.Run(c.source+" to "+c.target, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), folder(c.source), folder(c.target), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || r.Class != c.class || r.Unproven == "" {
				t.Errorf("got %q, class %q, unproven %q, want %q, %q\nfindings: %.400s", r.Kind, r.Class, r.Unproven, c.kind, c.class, r.Findings)
			}
		})
	}
}
