package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// machineDocuments are the documents about the machine with every field set.
func machineDocuments() []document {
	used, share := int64(1<<30), 0.5
	sample := schemas.Sample{Seconds: 5, RSS: 1, Processes: 2, Available: 3, Load1: 0.5, GPUs: []schemas.GPUSample{{Index: 1, Used: &used, Total: &used, Utilization: &share}}}
	id := schemas.ProcessID{BootID: "b", Namespace: "pid:[1]", PID: 7, Start: "99"}
	other := []schemas.OtherProcess{{Name: "ollama", Kind: "model server", RSS: 1, Load: 0.5, Count: 2}}
	present := schemas.Present{At: moment, Memory: 2, Available: 1, Load1: 0.1, CPUs: 8, Others: other, GPU: schemas.GPUPresent{Source: "nvidia-smi", Processes: 1, Used: 1}}
	return []document{
		{schemas.SamplesURI, &schemas.Samples{
			Schema: schemas.SamplesURI, Label: "l", IntervalSeconds: 5, Count: 2, Every: 1, GPU: "nvidia-smi", Samples: []schemas.Sample{sample},
			Maxima:    schemas.Maxima{RSS: 1, Available: 2, Load1: 3, GPUUsed: 4},
			HighWater: []schemas.HighWater{{Of: "weighmaster", Source: "VmHWM", Bytes: 1, Scope: "s"}}, Unreadable: []string{"u"},
		}},
		{schemas.ReceiptURI, &schemas.Receipt{Schema: schemas.ReceiptURI, RSSThreshold: 1, LoadThreshold: 0.5, Start: present, End: present, During: other}},
		{schemas.ProgressURI, &schemas.Progress{
			Schema: schemas.ProgressURI, Stage: "q8", Uses: "quantize", Invocation: strings.Repeat("0a", 16), Declaration: strings.Repeat("ab", 32), Inputs: map[string]string{"model": "d"},
			Process: id, Tools: []schemas.ToolProcess{{ProcessID: id, Name: "t"}}, Started: moment, Updated: moment, UpdatedUptime: 1, IntervalSeconds: 5, ElapsedSeconds: 2,
			Message: "m", Done: 1, Total: 2, Rate: 0.5, Last: &sample,
		}},
	}
}

// Nothing that names a user, an argument or a folder has a place in a receipt.
func TestAReceiptHasNoPlaceForArgumentsOrUsers(t *testing.T) {
	body, err := json.Marshal(machineDocuments()[1].full)
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.Validate(schemas.ReceiptURI, body); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"arguments", "user", "cwd", "environment"} {
		more := strings.Replace(string(body), `"name":"ollama"`, `"name":"ollama","`+field+`":"x"`, 1)
		if err := schemas.Validate(schemas.ReceiptURI, []byte(more)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
