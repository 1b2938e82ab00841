package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/azure/azuretest"
	"github.com/weighmaster/weighmaster/stages/remote/sshtest"
)

// realFault breaks one thing in a copy of the finished project and says how that must end.
type realFault struct {
	name string
	do   func(p *realProject)
}

// insert puts a stage before another one in the pipeline.
func (p *realProject) insert(before, stage string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "pipeline.yaml")
	body, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	at := regexp.MustCompile(`(?m)^  - \{name: ` + regexp.QuoteMeta(before) + `,`).FindIndex(body)
	if at == nil {
		p.t.Fatalf("the pipeline has no stage %s", before)
	}
	p.replace("pipeline.yaml", bytes.Join([][]byte{body[:at[0]], []byte(stage + "\n"), body[at[0]:]}, nil), 0o644)
}

// stage edits the line of one stage.
func (p *realProject) stage(name, from, to string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "pipeline.yaml")
	body, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^  - \{name: ` + regexp.QuoteMeta(name) + `,.*$`).Find(body)
	if n := bytes.Count(line, []byte(from)); n != 1 {
		p.t.Fatalf("stage %s: %q is there %d times, want once: %s", name, from, n, line)
	}
	p.edit("pipeline.yaml", string(line), strings.Replace(string(line), from, to, 1))
}

// swapped puts a file of the build's products in another's place.
func (p *realProject) swapped(name string, change func(body []byte) []byte) {
	p.t.Helper()
	path := "work/runtime/runtime/bin/" + name
	body, err := os.ReadFile(filepath.Join(p.dir, path))
	if err != nil {
		p.t.Fatal(err)
	}
	p.replace(path, change(body), 0o555)
}

// fakeQuantizer has q8 made by a script that a build of its own wrote.
func (p *realProject) fakeQuantizer(script string) {
	p.t.Helper()
	write := `printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0"`
	p.insert("q8", fmt.Sprintf(`  - {name: fake, uses: build, inputs: {source: llama.cpp}, with: {compilers: [sh], products: [bin/llama-quantize], commands: [[mkdir, "{build}/bin"], [sh, -c, %q, "{build}/bin/llama-quantize", %q]]}}`, write, script))
	p.stage("q8", "runtime: runtime", "runtime: fake")
	p.upTo("q8")
}

var realFaults = []realFault{
	{"patch for another commit", func(p *realProject) {
		p.edit("patches/tokenizer.patch", "-        return -1000.0  # Default score", "-        return -2000.0  # Default score")
		p.upTo("llama.cpp")
		p.refused(exitFalse, `does not apply to commit `+realCommit+`: gguf-py/gguf/vocab\.py, hunk @@ -650`, "run")
	}},
	{"tokenizer without its patch", func(p *realProject) { // the publisher leaves tokenizer.model away, which is what the patch is for
		p.edit("pipeline.yaml", `"tokenizer.model", `, "")
		if err := os.RemoveAll(filepath.Join(p.dir, "work", "source")); err != nil {
			p.t.Fatal(err)
		}
		whole := p.upTo("tokenizer-compared")
		p.must("run")
		p.replace("pipeline.yaml", whole, 0o644)
		p.upTo("q8") // what the patched converter made is not what the known one would write, and was compared
		p.stage("q8", "Q8_0.gguf}}", "Q8_0.gguf}}\n  - {name: q8-derived, uses: derive, inputs: {source: source, product: q8}}")
		p.refused(exitFalse, `q8-derived \(derive\): failed: .*key tokenizer\.ggml\.`, "run")
		p.stage("q8-derived", "product: q8}", "product: q8}, with: {tokenizer: compared}")
		p.must("run")
		p.replace("pipeline.yaml", whole, 0o644)
		p.edit("pipeline.yaml", ", patch: patches/tokenizer.patch", "")
		p.upTo("tokenizer-compared")
		p.refused(exitFalse, `tokenizer-compared \(parity\): failed: ids: case 0, .*got 450, want 459`, "run")
	}},
	{"binary swapped after the build", func(p *realProject) {
		p.swapped("llama-quantize", func(body []byte) []byte { return append(body, 0) })
		p.refused(exitUndecided, `stage runtime \(build\) is not complete`, "accept", "q8-accepted")
	}},
	{"library swapped", func(p *realProject) {
		p.swapped("libggml-base.so.0", func(body []byte) []byte { body[len(body)/2] ^= 1; return body })
		p.refused(exitUndecided, `stage runtime \(build\) is not complete`, "accept", "q8-accepted")
	}},
	{"importance matrix of another model", func(p *realProject) {
		p.insert("q6", `  - {name: f16, uses: quantize, inputs: {model: bf16, runtime: runtime}, with: {type: F16, file: other-F16.gguf}}
  - {name: other-matrix, uses: calibrate, inputs: {model: f16, runtime: runtime}, with: {corpus: calibration/corpus.txt, licence: cc0-1.0, file: other-imatrix.gguf, chunkSize: 128}}`)
		p.stage("q6", "imatrix: matrix", "imatrix: other-matrix")
		p.upTo("q6")
		p.refused(exitFalse, `stage q6 \(quantize\): failed: input imatrix: importance matrix: it was calibrated with another model: got sha256:`, "run")
	}},
	{"quantizer run outside the box", func(p *realProject) {
		p.stage("q8", "file: example-llama-2m-Q8_0.gguf", "file: example-llama-2m-Q8_0.gguf, box: {method: none}")
		p.upTo("q8-accepted")
		p.refused(exitFalse, `q8-accepted \(accept\): failed: boxed: box of q8 \(quantize\): failed: got none: it ran outside of any box`, "run")
	}},
	{"network let in", func(p *realProject) {
		p.stage("q8", "file: example-llama-2m-Q8_0.gguf", "file: example-llama-2m-Q8_0.gguf, box: {admit: [network]}")
		p.upTo("q8-accepted")
		p.refused(exitFalse, `q8-accepted \(accept\): failed: boxed: box of q8 \(quantize\): failed: got bubblewrap with the network admitted`, "run")
	}},
	{"tool that exits 0 without output", func(p *realProject) {
		p.fakeQuantizer("exit 0")
		p.refused(exitFalse, `stage q8 \(quantize\): failed: the command ended with 0, but it made no`, "run")
	}},
	{"tool that writes a wrong file", func(p *realProject) {
		p.fakeQuantizer(`exec cp "$1" "$2"`)
		p.refused(exitFalse, `stage q8 \(quantize\): failed: .*general\.file_type is 32 \(.*BF16\), want 7`, "run")
	}},
	{"converter killed half-way", converterKilled},
	{"delivery cut at six tenths", deliveryCut},
	{"remote file changed between", remoteChanged},
	{"VM still deallocating", stillDeallocating},
}

// converterKilled kills the converter's process, then goes on to the end.
func converterKilled(p *realProject) {
	p.edit("pipeline.yaml", "name: example-llama-2m, ", "name: again, ")
	p.upTo("bf16")
	cmd := exec.CommandContext(p.t.Context(), p.self, "--project", p.dir, "run")
	cmd.Env = p.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	killed := false
	for deadline := time.Now().Add(5 * time.Minute); !killed && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if converterOf(cmd.Process.Pid) != 0 {
			time.Sleep(time.Second) // it is at work
			killed = killConverter(cmd.Process.Pid)
		}
	}
	err := cmd.Wait()
	if !killed || err == nil || !strings.Contains(out.String(), "bf16 (convert): failed: the command ended with") {
		p.t.Fatalf("killed %v, %v:\n%s", killed, err, out.String())
	}
	p.must("run")
}

func killConverter(weighmaster int) bool {
	pid := converterOf(weighmaster)
	return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// converterOf finds the converter's Python among the descendants of a process.
func converterOf(weighmaster int) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	parent, python := map[int]int{}, []int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		name, rest, ok := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(rest))
		if !ok || len(fields) < 2 {
			continue
		}
		parent[pid], _ = strconv.Atoi(fields[1])
		if bytes.Contains(name, []byte("(python")) {
			python = append(python, pid)
		}
	}
	for _, pid := range python {
		for at := pid; at > 1; at = parent[at] {
			if at == weighmaster {
				return pid
			}
		}
	}
	return 0
}

const realProduct = "example-llama-2m-Q8_0.gguf"

// otherMachine starts a machine that is reached over ssh, and has q8 sent there.
func (p *realProject) otherMachine() *sshtest.Server {
	p.t.Helper()
	server, err := sshtest.Start(p.t, sshtest.Options{})
	if err != nil {
		shared.Missing(p.t, "%v", err)
	}
	config, err := os.ReadFile(server.Config)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "ssh.config"), config, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.insert("bf16-accepted", fmt.Sprintf("  - {name: q8-sent, uses: deliver, inputs: {artifact: q8}, with: {to: %q, config: ssh.config}}", server.Address()))
	return server
}

// deliveryCut sends a product over a connection that is cut, and goes on.
func deliveryCut(p *realProject) {
	server := p.otherMachine()
	p.upTo("q8-sent")
	product, err := os.ReadFile(filepath.Join(p.dir, "delivered", realProduct))
	if err != nil {
		p.t.Fatal(err)
	}
	server.CutAfter(int64(len(product)) * 6 / 10)
	p.refused(exitFalse, `q8-sent \(deliver\): failed: .*what arrived is kept; run again to go on`, "run")
	if server.Cuts() != 1 {
		p.t.Fatalf("%d connections were cut, want 1", server.Cuts())
	}
	if _, err := os.Stat(filepath.Join(server.Dir, realProduct)); err == nil {
		p.t.Fatal("what was cut has the file's name")
	}
	p.must("run")
	if sent, err := os.ReadFile(filepath.Join(server.Dir, realProduct)); err != nil || !bytes.Equal(sent, product) {
		p.t.Fatalf("%d bytes arrived, %v; want the product's %d", len(sent), err, len(product))
	}
}

// remoteChanged fetches a product from a machine on which somebody changed it after it was sent there.
func remoteChanged(p *realProject) {
	server := p.otherMachine()
	p.insert("bf16-accepted", fmt.Sprintf("  - {name: q8-fetched, uses: deliver, inputs: {artifact: q8}, with: {from: %q, config: ssh.config}}", server.Address()+"/"+realProduct))
	whole := p.upTo("q8-sent")
	p.must("run")
	sent := filepath.Join(server.Dir, realProduct)
	body, err := os.ReadFile(sent)
	if err != nil {
		p.t.Fatal(err)
	}
	body[len(body)/2] ^= 1
	if err := errors.Join(os.Chmod(sent, 0o644), os.WriteFile(sent, body, 0o644)); err != nil {
		p.t.Fatal(err)
	}
	p.replace("pipeline.yaml", whole, 0o644)
	p.upTo("q8-fetched")
	p.refused(exitFalse, `q8-fetched \(deliver\): failed: .*sha256:`, "run")
}

// stillDeallocating asks again for compute that does not get deallocated.
func stillDeallocating(p *realProject) {
	azure := p.azure()
	azure.SetDeallocation(-1)
	p.stage("compute-released", "vm: compute.yaml", "vm: compute-2.yaml")
	body, err := os.ReadFile(filepath.Join(p.dir, "compute.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.replace("compute-2.yaml", append(body, "# rented again\n"...), 0o600)
	p.refused(exitUndecided, `compute-released \(release\): undecided: .*deallocating`, "run")
	azure.SetDeallocation(0)
	p.must("run")
}

var rentedMachine = azuretest.VM{Subscription: "11111111-2222-3333-4444-555555555555", ResourceGroup: "group", Name: "vm", VMID: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", Size: "Standard_D2s_v5"}

// azure starts what stands in for Azure and tells the command of it.
func (p *realProject) azure() *azuretest.Server {
	server := azuretest.NewServer(rentedMachine)
	p.t.Cleanup(server.Close)
	p.env = append(p.env, azureVariable+"="+server.URL)
	return server
}

// rent names the rented machine.
func (p *realProject) rent() {
	p.t.Helper()
	m := rentedMachine
	body := fmt.Sprintf("schema: %s\nprovider: azure\nsubscription: %s\nresourceGroup: %s\nname: %s\nvmId: %s\nsize: %s\nallocated: {from: %q, source: the activity log}\n",
		schemas.ComputeURI, m.Subscription, m.ResourceGroup, m.Name, m.VMID, m.Size, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(p.dir, "compute.yaml"), []byte(body), 0o600); err != nil {
		p.t.Fatal(err)
	}
}
