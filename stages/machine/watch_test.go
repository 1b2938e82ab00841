package machine

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// scripted is a watch over readings that a test makes up.
func scripted(readings ...reading) *Watch {
	w := newWatch(Interval, func() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }, nil)
	w.self = 100
	w.account = newAccount(100)
	w.account.command = func(pid int) string {
		return map[int]string{7: "python -m vllm.entrypoints", 8: "python train.py --token=secret"}[pid]
	}
	w.mark = func(pid int) int64 { return int64(pid) << 20 }
	i := 0
	w.look = func(context.Context, bool) reading {
		r := readings[min(i, len(readings)-1)]
		i++
		return r
	}
	return w
}

func ours(rss int64, others ...process) reading {
	list := append([]process{{pid: 1, name: "init", start: "1", rss: 1 << 20}, {pid: 100, parent: 1, name: "weighmaster", start: "9", rss: 10 << 20},
		{pid: 101, parent: 100, name: "llama-quantize", start: "10", rss: rss}}, others...)
	return reading{processes: list, memory: 64 << 30, available: 32<<30 - rss, load1: 1, cpus: 8, gpuSource: absent}
}

func check(t *testing.T, uri string, doc any) {
	t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.Validate(uri, body); err != nil {
		t.Errorf("%v\n%s", err, body)
	}
}

func TestSamplesAreOfTheWholeTreeAndKeptApartFromHighWaterMarks(t *testing.T) {
	w := scripted(ours(1<<30), ours(5<<30), ours(2<<30))
	w.take(t.Context(), true, 0)
	w.take(t.Context(), false, 5)
	s, r := w.finish(7)
	check(t, schemas.SamplesURI, s)
	check(t, schemas.ReceiptURI, r)
	if s.Count != 3 || len(s.Samples) != 3 || s.Every != 1 || s.IntervalSeconds != 5 || !strings.Contains(s.Label, "sampled maximum and may miss peaks") {
		t.Errorf("got %+v", s)
	}
	if s.Maxima.RSS != 5<<30+10<<20 || s.Samples[2].RSS != 2<<30+10<<20 || s.Samples[0].Processes != 2 || s.Maxima.Available != 27<<30 {
		t.Errorf("got maxima %+v of %+v", s.Maxima, s.Samples)
	}
	i := slices.IndexFunc(s.HighWater, func(h schemas.HighWater) bool { return h.Of == "llama-quantize" })
	if i < 0 || s.HighWater[i].Bytes != 101<<20 || s.HighWater[i].Source != "VmHWM" {
		t.Errorf("got the marks %+v", s.HighWater)
	}
	facts := Facts(s, r)
	if facts[schemas.FactSampledPeakRSS] != "5379194880" || facts[schemas.FactHighWaterRSS] != "105906176" || facts[schemas.FactOthersRunning] != "0" || facts[schemas.FactModelServers] != "0" {
		t.Errorf("got the facts %v", facts)
	}
}

// A speed figure taken beside another resident model: the receipt lists it.
func TestTheReceiptListsWhatElseRan(t *testing.T) {
	small := process{pid: 5, parent: 1, name: "sshd", start: "2", rss: 5 << 20, age: 1000, cpu: 1}
	ollama := process{pid: 6, parent: 1, name: "ollama", start: "3", rss: 40 << 20, age: 1000}
	vllm := process{pid: 7, parent: 1, name: "python3", start: "4", rss: 90 << 30, age: 1000}
	training := process{pid: 8, parent: 1, name: "python3", start: "5", rss: 3 << 30, age: 1000}
	busy := func(cpu float64) process {
		return process{pid: 9, parent: 1, name: "cc1plus", start: "6", rss: 100 << 20, age: 1000, cpu: cpu}
	}
	w := scripted(ours(1<<30, small, vllm, busy(10)), ours(1<<30, small, ollama, training, busy(25)), ours(1<<30, small, busy(26)))
	w.take(t.Context(), true, 0)
	w.take(t.Context(), false, 5)
	s, r := w.finish(10)
	check(t, schemas.ReceiptURI, r)
	names := func(list []schemas.OtherProcess) string {
		var out []string
		for _, o := range list {
			out = append(out, o.Kind+" "+o.Name)
		}
		return strings.Join(out, ", ")
	}
	if got := names(r.Start.Others); got != "model server python3" {
		t.Errorf("at the start: %s", got)
	}
	if got := names(r.End.Others); got != "" {
		t.Errorf("at the end: %s", got)
	}
	if got := names(r.During); got != "model server python3, model server ollama, process python3, process cc1plus" {
		t.Errorf("during: %s", got)
	}
	if load := r.During[3].Load; load != 3 {
		t.Errorf("the compiler used %v processors, want 15 s in 5 s", load)
	}
	if f := Facts(s, r); f[schemas.FactOthersRunning] != "4" || f[schemas.FactModelServers] != "2" {
		t.Errorf("got the facts %v", f)
	}
	body, err := json.Marshal(r)
	if err != nil || strings.Contains(string(body), "secret") || strings.Contains(string(body), "vllm") {
		t.Errorf("arguments are in the receipt: %s", body)
	}
}

func TestAPidThatIsUsedAgainIsAnotherProcess(t *testing.T) {
	old := process{pid: 9, parent: 1, name: "cc", start: "6", rss: 1, age: 1000, cpu: 500}
	young := process{pid: 9, parent: 1, name: "cc", start: "7", rss: 1, age: 2, cpu: 0.1}
	w := scripted(ours(1, old), ours(1, young))
	w.take(t.Context(), true, 0)
	_, r := w.finish(5)
	if len(r.End.Others) != 0 {
		t.Errorf("got %+v", r.End.Others)
	}
}

func TestFactsOfAnUnreadableMachineAreAbsent(t *testing.T) {
	w := scripted(reading{cpus: 1, gpuSource: absent, faults: []string{"processes: permission denied"}})
	w.mark = func(int) int64 { return 0 }
	s, r := w.finish(1)
	if f := Facts(s, r); len(f) != 0 || len(s.Unreadable) != 1 {
		t.Errorf("got the facts %v of %+v", f, s)
	}
}

func TestALongRunIsThinned(t *testing.T) {
	w := scripted(ours(1))
	for i := range 2*maxSamples + 7 {
		w.take(t.Context(), false, float64(i)*5)
	}
	s, r := w.finish(1e6)
	if s.Count != 2*maxSamples+8 || len(s.Samples) >= maxSamples || s.Every != 4 || s.Samples[1].Seconds != 20 {
		t.Errorf("%d samples, %d listed, each %d., the second at %v s", s.Count, len(s.Samples), s.Every, s.Samples[1].Seconds)
	}
	check(t, schemas.SamplesURI, s)
	check(t, schemas.ReceiptURI, r)
}

func TestAShortRunHasAStartAndAnEnd(t *testing.T) {
	notified := 0
	w := Start(Interval, time.Now, func(*schemas.Sample, []schemas.ToolProcess) { notified++ })
	s, r := w.Stop()
	if s.Count != 2 || notified != 2 || s.Maxima.RSS < 1<<20 || len(s.Unreadable) != 0 || r.Start.At.IsZero() || r.End.Memory < 1<<20 {
		t.Errorf("got %+v, %+v", s, r)
	}
	check(t, schemas.SamplesURI, s)
	check(t, schemas.ReceiptURI, r)
}

func TestTheToolsThatRunAreTold(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start sleep: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	found := make(chan schemas.ToolProcess, 100)
	w := Start(time.Hour, time.Now, func(_ *schemas.Sample, tools []schemas.ToolProcess) {
		for _, tool := range tools {
			if tool.PID == cmd.Process.Pid {
				found <- tool
			}
		}
	})
	w.Stop()
	tool := <-found
	if tool.Name != "sleep" || Look(tool.ProcessID) != Alive || tool.PID == os.Getpid() {
		t.Errorf("got %+v", tool)
	}
}

func BenchmarkReading(b *testing.B) {
	for b.Loop() {
		read(b.Context(), true)
	}
}
