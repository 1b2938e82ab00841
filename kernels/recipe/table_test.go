package recipe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const tables = "../../fixtures/recipes"

// table is what llama-quantize said about one shape: fixtures/recipes/NAME.json.
type table struct {
	Tensors []string          `json:"tensors"` // in the tool's order
	Legend  []string          `json:"legend"`  // letter a, b, c …
	Runs    map[string]string `json:"runs"`    // arguments: a letter for each tensor, or "refused"
}

const refused = "refused"

func readTable(t testing.TB, name string) table {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tables, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var tb table
	if err := json.Unmarshal(b, &tb); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tb
}

// types gives what a run says, nil for refused.
func (tb table) types(t testing.TB, run string) map[string]gguf.Type {
	t.Helper()
	letters := tb.Runs[run]
	if letters == refused {
		return nil
	}
	if len(letters) != len(tb.Tensors) {
		t.Fatalf("%s: got %d letters for %d tensors", run, len(letters), len(tb.Tensors))
	}
	types := map[string]gguf.Type{}
	for i, name := range tb.Tensors {
		typ, ok := gguf.ParseType(tb.Legend[letters[i]-'a'])
		if !ok {
			t.Fatalf("%s: unknown type %s", run, tb.Legend[letters[i]-'a'])
		}
		types[name] = typ
	}
	return types
}

// parseRun reads the arguments of a run as this package has them.
func parseRun(t testing.TB, run string) (Recipe, Options) {
	t.Helper()
	var o Options
	args := strings.Fields(run)
	typ := func(s string) *gguf.Type {
		typ, ok := gguf.ParseType(s)
		if !ok {
			t.Fatalf("%s: unknown type %s", run, s)
		}
		return &typ
	}
	for len(args) > 1 {
		a := args[0]
		args = args[1:]
		switch a {
		case "--pure":
			o.Pure = true
		case "--imatrix":
			o.Matrix = true
		case "--leave-output-tensor":
			o.LeaveOutput = true
		case "--output-tensor-type":
			o.Output, args = typ(args[0]), args[1:]
		case "--token-embedding-type":
			o.TokenEmbedding, args = typ(args[0]), args[1:]
		case "--tensor-type":
			v, err := ParseOverride(args[0])
			if err != nil {
				t.Fatal(err)
			}
			o.Overrides, args = append(o.Overrides, v), args[1:]
		default:
			t.Fatalf("%s: unknown option %s", run, a)
		}
	}
	r, ok := Find(args[0])
	if !ok {
		t.Fatalf("%s: no such recipe", run)
	}
	return r, o
}

// runs lists the arguments to try: every recipe with and without a matrix, and a choice of options.
func runs() []string {
	var list []string
	for _, r := range recipes {
		list = append(list, r.Name, "--imatrix "+r.Name)
		if r.Default.Quantized() {
			list = append(list, "--pure "+r.Name)
		}
	}
	for _, name := range []string{"Q4_K_M", "Q3_K_L", "IQ3_XXS", "IQ2_M", "IQ4_XS", "Q8_0", "F16", "MXFP4_MOE"} {
		for _, o := range []string{
			"--output-tensor-type Q8_0", "--token-embedding-type Q6_K", "--output-tensor-type BF16 --token-embedding-type F16",
			"--leave-output-tensor", "--pure --output-tensor-type Q6_K", "--pure --token-embedding-type Q8_0 --output-tensor-type Q8_0",
			"--tensor-type attn_v=Q8_0", "--tensor-type blk\\.[0-4]\\.ffn_down=Q6_K --tensor-type ffn_(up|gate)=Q3_K --tensor-type ffn_down=Q5_K",
			"--tensor-type per_layer_token_embd=Q5_1 --token-embedding-type Q4_0", "--tensor-type token_embd=Q6_K", "--output-tensor-type IQ4_NL",
		} {
			list = append(list, o+" "+name)
		}
	}
	return list
}

func TestTypesAreLlamaQuantizes(t *testing.T) {
	regenerate(t)
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.model(t)
			tb := readTable(t, s.name)
			var names []string
			for _, tensor := range m.Tensors {
				names = append(names, tensor.Name)
			}
			if !slices.Equal(names, tb.Tensors) {
				t.Fatalf("the order of tensors differs: got %v, want %v", names, tb.Tensors)
			}
			if len(tb.Runs) != len(runs()) {
				t.Errorf("got %d runs in the fixture, want %d", len(tb.Runs), len(runs()))
			}
			shared := prepare(&m) // as Types does for one run
			for _, run := range slices.Sorted(maps.Keys(tb.Runs)) {
				r, o := parseRun(t, run)
				want := tb.types(t, run)
				got, err := r.list(shared, o)
				if (err != nil) != (want == nil) {
					t.Errorf("%s: got error %v, want refused: %v", run, err, want == nil)
					continue
				}
				for i, tensor := range names {
					if want != nil && got[i] != want[tensor] {
						t.Errorf("%s: %s: got %s, want %s", run, tensor, got[i], want[tensor])
						break
					}
				}
			}
		})
	}
}

// TestRecognizeNamesTheRecipe goes the other way: from the tool's types to its
// arguments, and with one tensor's type changed to that difference.
func TestRecognizeNamesTheRecipe(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.model(t)
			tb := readTable(t, s.name)
			done := map[string]bool{}
			for _, run := range slices.Sorted(maps.Keys(tb.Runs)) {
				r, o := parseRun(t, run)
				if again := r.Name + tb.Runs[run]; done[again] {
					continue // the options changed nothing
				} else {
					done[again] = true
				}
				types := tb.types(t, run)
				if types == nil || r.family == copied || len(o.Overrides) > 0 || o.count() > 0 && len(m.Tensors) > 300 {
					continue // options are tried on the smaller models
				}
				best, _ := Recognize(m, types, &r.FileType, o.Matrix)
				if !best.Exact || best.Recipe != r.Name || best.Claim(&r.FileType) != "" {
					t.Errorf("%s: got %s", run, best)
					continue
				}
				again, err := r.Types(m.as(types), best.Options)
				if err != nil || !maps.Equal(again, types) {
					t.Errorf("%s: the options found, %s, do not give the types (%v)", run, best.Options, err)
				}
				if o.count() == 0 && !o.Matrix {
					s.tamper(t, m, run, types, r.FileType)
				}
			}
		})
	}
}

// tamper changes the type of one tensor within the layers.
func (s shape) tamper(t *testing.T, m Model, run string, types map[string]gguf.Type, fileType uint32) {
	t.Helper()
	last := fmt.Sprintf("blk.%d.ffn_up.weight", s.layers-1)
	from, ok := types[last]
	if !ok || s.layers < 9 {
		return // in a small model one tensor more or less can make another recipe
	}
	changed := maps.Clone(types)
	changed[last] = gguf.I32
	best, _ := Recognize(m, changed, &fileType, strings.Contains(run, "--imatrix"))
	want := Difference{last, gguf.I32, from}
	if best.Exact || len(best.Differences) != 1 || best.Differences[0] != want || best.Claim(&fileType) == "" {
		t.Errorf("%s with one other type: got %s %v, want %v", run, best, best.Differences, want)
	}
}

func (s shape) model(t testing.TB) Model {
	t.Helper()
	m, err := ModelOf(opened(t, s.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func opened(t testing.TB, b []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// header is a file with these keys and one tensor.
func header(t testing.TB, kvs []gguf.KV) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	one := gguf.TensorSource{Name: "t", Dims: []uint64{1}, Type: gguf.F32, Data: func(w io.Writer) error {
		_, err := w.Write(make([]byte, 4))
		return err
	}}
	if err := gguf.Write(&b, kvs, []gguf.TensorSource{one}); err != nil {
		t.Fatal(err)
	}
	return opened(t, b.Bytes())
}

func (s shape) bytes(t testing.TB) []byte {
	t.Helper()
	kvs, tensors := s.file()
	var sources []gguf.TensorSource
	for _, info := range tensors {
		size, err := info.Type.Size(info.Dims)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, gguf.TensorSource{Name: info.Name, Dims: info.Dims, Type: info.Type, Data: func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			return err
		}})
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, sources); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return b.Bytes()
}

// regenerate asks the real tool, where LLAMA_QUANTIZE names it, and writes the tables that are not there.
func regenerate(t *testing.T) {
	tool := os.Getenv("LLAMA_QUANTIZE")
	if tool == "" {
		return
	}
	dir := t.TempDir()
	var matrix bytes.Buffer
	one := func(name string) gguf.TensorSource {
		return gguf.TensorSource{Name: name, Dims: []uint64{1}, Type: gguf.F32, Data: func(w io.Writer) error {
			return binary.Write(w, binary.LittleEndian, float32(1))
		}}
	}
	keys := []gguf.KV{
		{Key: "imatrix.datasets", Value: gguf.Strings([]string{"text"})},
		{Key: "imatrix.chunk_count", Value: gguf.Uint32(1)}, {Key: "imatrix.chunk_size", Value: gguf.Uint32(1)},
	}
	if err := gguf.Write(&matrix, keys, []gguf.TensorSource{one("blk.0.attn_q.weight.in_sum2"), one("blk.0.attn_q.weight.counts")}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "imatrix.gguf"), matrix.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		path := filepath.Join(tables, s.name+".json")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "model.gguf"), s.bytes(t), 0o600); err != nil {
			t.Fatal(err)
		}
		tb := table{Runs: map[string]string{}}
		for _, run := range runs() {
			tb.Runs[run] = tb.ask(t, tool, dir, run)
		}
		b, err := json.MarshalIndent(tb, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var told = regexp.MustCompile(`(?m)^\[ *\d+/ *\d+\] (\S+) .*type = +(\w+), size = .* MiB(?: \((\w+)\))?$`)

func quantize(tool, dir string, args []string) ([]byte, error) {
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// ask runs llama-quantize --dry-run and gives a letter for each tensor.
func (tb *table) ask(t *testing.T, tool, dir, run string) string {
	t.Helper()
	args := []string{"--dry-run"}
	for a := range strings.FieldsSeq(run) {
		if args = append(args, a); a == "--imatrix" {
			args = append(args, "imatrix.gguf")
		}
	}
	last := len(args) - 1
	out, err := quantize(tool, dir, append(args[:last:last], "model.gguf", args[last], "1"))
	if err == nil && strings.Contains(run, "-type ") {
		// A dry run does not notice that a forced type's block does not divide the rows; a real one does.
		out2, err2 := quantize(tool, dir, append(args[1:last:last], "model.gguf", "out.gguf", "F16", "1"))
		if err2 != nil && (bytes.Contains(out2, []byte("GGML_ASSERT")) || bytes.Contains(out2, []byte("data validation failed"))) {
			return refused
		}
	}
	if err != nil {
		if !bytes.Contains(out, []byte("no tensor type fallback")) {
			t.Fatalf("%s: %v\n%s", run, err, out)
		}
		return refused
	}
	var names []string
	letters := ""
	for _, line := range told.FindAllStringSubmatch(string(out), -1) {
		typ := line[2]
		if line[3] != "" {
			typ = line[3]
		}
		typ = strings.ToUpper(typ)
		i := slices.Index(tb.Legend, typ)
		if i < 0 {
			i = len(tb.Legend)
			tb.Legend = append(tb.Legend, typ)
		}
		names = append(names, line[1])
		letters += string(rune('a' + i))
	}
	if tb.Tensors == nil {
		tb.Tensors = names
	}
	if !slices.Equal(names, tb.Tensors) || len(names) == 0 {
		t.Fatalf("%s: the tool lists other tensors:\n%s", run, out)
	}
	return letters
}
