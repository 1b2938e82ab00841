package machine

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// Words for who told of GPUs.
const (
	nvidiaSMI = "nvidia-smi"
	absent    = "absent"
)

const (
	gpuPatience  = 2 * time.Second // how long one reading may take
	maxGPUOutput = 1 << 20         // bytes
	maxGPUs      = 256
)

// gpuTool is the path of nvidia-smi; empty when there is none.
func gpuTool() string {
	path, err := exec.LookPath(nvidiaSMI)
	if err != nil {
		return ""
	}
	return path
}

// readGPUs asks nvidia-smi for each device's memory and use.
func readGPUs(ctx context.Context, tool string) ([]schemas.GPUSample, error) {
	out, err := ask(ctx, tool, "--query-gpu=index,memory.used,memory.total,utilization.gpu")
	if err != nil {
		return nil, err
	}
	return parseGPUs(out)
}

// gpuProcess is a process that computes on a GPU.
type gpuProcess struct {
	pid  int
	used int64 // bytes; 0 when the driver does not tell
}

func readGPUProcesses(ctx context.Context, tool string) ([]gpuProcess, error) {
	out, err := ask(ctx, tool, "--query-compute-apps=pid,used_memory")
	if err != nil {
		return nil, err
	}
	return parseGPUProcesses(out)
}

func ask(ctx context.Context, tool, query string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gpuPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, query, "--format=csv,noheader,nounits")
	cmd.WaitDelay = gpuPatience
	var out bytes.Buffer
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", nvidiaSMI, err)
	}
	_, copied := io.Copy(&out, io.LimitReader(pipe, maxGPUOutput))
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", nvidiaSMI, query, err)
	}
	return out.Bytes(), copied
}

// parseGPUs reads lines such as "0, 1024, 81920, 37": MiB and percent. A value in
// brackets ([N/A], [Not Supported]) is one that the device does not tell.
func parseGPUs(out []byte) ([]schemas.GPUSample, error) {
	rows, err := records(out, 4)
	if err != nil {
		return nil, err
	}
	list := []schemas.GPUSample{}
	for i, row := range rows {
		index, err := strconv.Atoi(row[0])
		if err != nil || index < 0 || i >= maxGPUs {
			return nil, fmt.Errorf("%s: line %d: got index %q, want a number, and at most %d devices", nvidiaSMI, i+1, row[0], maxGPUs)
		}
		g := schemas.GPUSample{Index: index}
		if g.Used, err = mebibytes(row[1]); err != nil {
			return nil, fmt.Errorf("%s: line %d: memory.used: %w", nvidiaSMI, i+1, err)
		}
		if g.Total, err = mebibytes(row[2]); err != nil {
			return nil, fmt.Errorf("%s: line %d: memory.total: %w", nvidiaSMI, i+1, err)
		}
		if !untold(row[3]) {
			percent, err := strconv.ParseUint(row[3], 10, 16)
			if err != nil || percent > 100 {
				return nil, fmt.Errorf("%s: line %d: utilization.gpu: got %q, want 0 to 100", nvidiaSMI, i+1, row[3])
			}
			fraction := float64(percent) / 100
			g.Utilization = &fraction
		}
		list = append(list, g)
	}
	return list, nil
}

// parseGPUProcesses reads lines such as "4711, 2048": pid and MiB.
func parseGPUProcesses(out []byte) ([]gpuProcess, error) {
	rows, err := records(out, 2)
	if err != nil {
		return nil, err
	}
	var list []gpuProcess
	for i, row := range rows {
		pid, err := strconv.Atoi(row[0])
		if err != nil || pid < 1 {
			return nil, fmt.Errorf("%s: line %d: got pid %q, want a number", nvidiaSMI, i+1, row[0])
		}
		used, err := mebibytes(row[1])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: used_memory: %w", nvidiaSMI, i+1, err)
		}
		p := gpuProcess{pid: pid}
		if used != nil {
			p.used = *used
		}
		list = append(list, p)
	}
	return list, nil
}

func records(out []byte, fields int) ([][]string, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = true, fields, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nvidiaSMI, err)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
	}
	return rows, nil
}

func untold(s string) bool { return strings.HasPrefix(s, "[") }

func mebibytes(s string) (*int64, error) {
	if untold(s) {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 42)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("got %q, want MiB", s)
	}
	n <<= 20
	return &n, nil
}
