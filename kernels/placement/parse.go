package placement

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of what is read.
const (
	MaxLog     = 256 << 20 // bytes of a log
	maxLine    = 64 << 10  // bytes of a line that are looked at
	maxEntries = 1 << 16   // buffers, overrides, devices and lines not understood, together
)

// A line's start: the time and the level of llama.cpp's common log, where it writes them.
var stamp = regexp.MustCompile(`^(?:\d+\.\d+\.\d+\.\d+ [A-Z] )?`)

var (
	bufferLine   = regexp.MustCompile(`^[A-Za-z_]+: +(\S+) +(.*?) ?buffer size = +([0-9]+\.[0-9]{2}) MiB$`)
	usingLine    = regexp.MustCompile(`^[a-z_]+: using device (\S+) \((.*?)\).* - (\d+) MiB free$`)
	startLine    = regexp.MustCompile(`^(?:llm_)?load_tensors: loading model tensors`)
	offloadLine  = regexp.MustCompile(`^(?:llm_)?load_tensors: offloaded (\d+)/(\d+) layers to GPU$`)
	assignedLine = regexp.MustCompile(`^(?:llm_)?load_tensors: layer +\d+ assigned to device ([^\s,]+)`)
	overrideLine = regexp.MustCompile(`^tensor (\S+) \(.*\) buffer type overridden to (\S+)$`)
	unusedLine   = regexp.MustCompile(`^model has unused tensor \S+ \(size = (\d+) bytes\) -- ignoring$`)
	lazyLine     = regexp.MustCompile(`^[a-z_]+: tensor \S+ \(size = \d+ MiB\) lazy read enabled$`)
	tensorsLine  = regexp.MustCompile(`^llama_model_loader: loaded meta data with \d+ key-value pairs and (\d+) tensors from `)
	fileLine     = regexp.MustCompile(`^print_info: file size +(?:=) ([0-9]+\.[0-9]{2}) (MiB|GiB) `)
	readyLine    = regexp.MustCompile(`^(?:llama_context|llama_new_context_with_model|llama_init_from_model): `)
	failedLine   = regexp.MustCompile(`^[a-z_]+: (?:error loading model|failed to load model)`)
	cutLine      = regexp.MustCompile(`^\[.*\b(?:cut|left out|omitted)\b.*\]$`)
)

// ErrTooLarge is the refusal of a log beyond the bounds.
var ErrTooLarge = errors.New("placement: the log is larger than what is read")

// Parse reads a load log of at most [MaxLog] bytes. What is no line about placement is
// passed over; a line about a buffer of weights that is not understood is kept in Unread.
// Memory grows with the buffers, not with the log. The error is that of r, or [ErrTooLarge].
func Parse(r io.Reader) (*Log, error) {
	l := &parser{log: Log{Tensors: -1, File: -1}}
	limited := &io.LimitedReader{R: r, N: MaxLog + 1}
	in := bufio.NewReaderSize(limited, maxLine)
	for n := 1; ; n++ {
		line, long, err := in.ReadLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("placement: line %d: %w", n, err)
		}
		l.line(n, strings.TrimRight(string(line), " \r"))
		for long && err == nil { // the rest of a long line says nothing
			_, long, err = in.ReadLine()
		}
		if l.entries > maxEntries {
			return nil, fmt.Errorf("%w: line %d: more than %d entries", ErrTooLarge, n, maxEntries)
		}
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxLog)
	}
	return &l.log, nil
}

type parser struct {
	log     Log
	entries int
}

// load is the one that a line belongs to.
func (p *parser) load(n int) *Load {
	if len(p.log.Loads) == 0 {
		p.start(n)
	}
	return &p.log.Loads[len(p.log.Loads)-1]
}

func (p *parser) start(n int) {
	p.entries++
	p.log.Loads = append(p.log.Loads, Load{Line: n, Offloaded: -1, Assigned: map[string]int{}})
}

// line takes one line. Numbers that do not fit are as lines that are not understood.
func (p *parser) line(n int, line string) {
	line = line[len(stamp.FindString(line)):]
	switch {
	case strings.Contains(line, "buffer size"):
		p.buffer(n, line)
	case startLine.MatchString(line):
		p.start(n)
		p.log.Ready = false
	case readyLine.MatchString(line):
		p.log.Ready = len(p.log.Loads) > 0
	case failedLine.MatchString(line):
		p.log.Failed = clip(line)
	case cutLine.MatchString(line):
		p.log.Cut = true
	default:
		p.detail(n, line)
	}
}

func (p *parser) buffer(n int, line string) {
	m := bufferLine.FindStringSubmatch(line)
	size := int64(-1)
	if m != nil {
		size = mebibytes(m[3])
	}
	if size < 0 {
		if strings.Contains(line, "model buffer size") {
			p.entries++
			p.log.Unread = append(p.log.Unread, fmt.Sprintf("line %d: %s", n, clip(line)))
		}
		return
	}
	b := Buffer{Name: m[1], Device: DeviceOf(m[1]), Bytes: size, Line: n}
	p.entries++
	switch what := strings.TrimSpace(m[2]); {
	case what == "model" || what == "LoRA":
		b.Kind = Kind(what)
		load := p.load(n)
		load.Weights = append(load.Weights, b)
		p.log.Ready = p.log.Ready && b.Kind == Adapter
	case what == "output":
		b.Kind = Output
		p.log.Staging = append(p.log.Staging, b)
	case what == "compute":
		b.Kind = Compute
		p.log.Staging = append(p.log.Staging, b)
	default: // KV, RS, states
		b.Kind = Cache
		p.log.Staging = append(p.log.Staging, b)
	}
}

// detail takes what is said about a load besides its buffers.
func (p *parser) detail(n int, line string) {
	if m := usingLine.FindStringSubmatch(line); m != nil {
		if free, err := strconv.ParseInt(m[3], 10, 43); err == nil {
			p.entries++
			p.log.Devices = append(p.log.Devices, Device{Name: m[1], Description: clip(m[2]), Free: free << 20})
		}
	} else if m := offloadLine.FindStringSubmatch(line); m != nil {
		load := p.load(n)
		done, err1 := strconv.Atoi(m[1])
		of, err2 := strconv.Atoi(m[2])
		if err1 == nil && err2 == nil {
			load.Offloaded, load.Layers = done, of
		}
	} else if m := assignedLine.FindStringSubmatch(line); m != nil {
		load := p.load(n)
		if _, known := load.Assigned[m[1]]; !known {
			p.entries++
		}
		load.Assigned[m[1]]++
	} else if m := overrideLine.FindStringSubmatch(line); m != nil {
		p.entries++
		load := p.load(n)
		load.Overrides = append(load.Overrides, Override{Tensor: clip(m[1]), Buffer: clip(m[2]), Line: n})
	} else if m := unusedLine.FindStringSubmatch(line); m != nil {
		if size, err := strconv.ParseInt(m[1], 10, 48); err == nil {
			load := p.load(n)
			load.Unused = min(load.Unused+size, math.MaxInt64/2)
		}
	} else if lazyLine.MatchString(line) {
		p.load(n).Lazy++
	} else if m := tensorsLine.FindStringSubmatch(line); m != nil {
		if count, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			p.log.Tensors = int(count)
		}
	} else if m := fileLine.FindStringSubmatch(line); m != nil {
		if size := mebibytes(m[1]); size >= 0 {
			p.log.File, p.log.FileErr = size, Rounding
			if m[2] == "GiB" {
				p.log.File, p.log.FileErr = size<<10, Rounding<<10
			}
		}
	}
}

// mebibytes is a printed number of MiB in bytes, -1 where it is none that a machine holds.
func mebibytes(s string) int64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || x < 0 || x > 1<<30 {
		return -1
	}
	return int64(math.Round(float64(x * (1 << 20))))
}

// clip keeps what a finding shows of a line.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "\uFFFD") }
