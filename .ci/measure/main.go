// Measure times weighmaster as a whole process beside what users would pick
// instead, on a model-shaped random model that it makes, and prints a table of
// ratios from one run: time of ours over time of theirs, per round the two in
// turn, each held to one core where taskset is there.
//
// usage: go run ./.ci/measure [-dir FOLDER] [-layers N] [-rounds N] [-only WORD] [-memory] [-chain]
//
// WEIGHMASTER_LLAMA_QUANTIZE names a llama-quantize and WEIGHMASTER_GGUF_PYTHON a
// Python that has numpy and gguf; contests that need one which is not given are
// left out and named. -chain needs WEIGHMASTER_COSIGN, a cosign 3.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", filepath.Join(os.TempDir(), "weighmaster-measure"), "where the model and its products lie; kept")
	layers := flag.Int("layers", 16, "layers of the model: 16 are 1.1 billion weights")
	rounds := flag.Int("rounds", 3, "rounds of each contest")
	sixteen := flag.Bool("memory", false, "our peak memory on 16 GB of zeros instead of the contests")
	evidence := flag.Bool("chain", false, "verification of a whole chain of evidence instead of the contests")
	only := flag.String("only", "", "only contests whose name contains this")
	flag.Parse()
	if err := run(context.Background(), *dir, *layers, *rounds, *only, *sixteen, *evidence); err != nil {
		log.Fatal("measure: ", err)
	}
}

func run(ctx context.Context, dir string, layers, rounds int, only string, sixteen, evidence bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binary := filepath.Join(dir, "weighmaster")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/weighmaster").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	if sixteen {
		return memory(ctx, binary, dir)
	}
	if evidence {
		return chain(ctx, binary, dir, rounds)
	}
	m := model{dir: filepath.Join(dir, fmt.Sprintf("model-%d", layers)), layers: layers}
	if err := m.make(ctx); err != nil {
		return err
	}
	list, left := contests(binary, m)
	for _, why := range left {
		fmt.Println("left out:", why)
	}
	fmt.Printf("%-44s %-34s %10s %10s %22s %10s\n", "contest", "beside", "ours (s)", "theirs (s)", "ratio (lowest, highest)", "ours (MiB)")
	for _, c := range list {
		if !strings.Contains(c.name, only) {
			continue
		}
		if err := c.fight(ctx, rounds); err != nil {
			return fmt.Errorf("%s beside %s: %w", c.name, c.beside, err)
		}
	}
	return nil
}
