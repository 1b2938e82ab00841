package schemas

import "time"

// URIs of the documents about the machine.
const (
	SamplesURI  = BaseURI + "schema/samples/v1"
	ReceiptURI  = BaseURI + "schema/receipt/v1"
	ProgressURI = BaseURI + "schema/progress/v1"
)

// Facts that a run's samples and receipt give (see [Result.Facts]): decimal
// numbers; absent when the machine does not tell them.
const (
	FactSampledPeakRSS = "sampledPeakRSS"      // bytes: the largest sample of the run's processes together; may miss peaks
	FactHighWaterRSS   = "highWaterRSS"        // bytes: the largest high-water mark of one process, kept by the kernel
	FactOthersRunning  = "othersRunning"       // count of other processes above the receipt's thresholds
	FactModelServers   = "modelServersRunning" // count of them that are known to serve models, of any size
)

// ProcessID tells one process of all boots: a pid alone is given to another
// process sooner or later. Start is the kernel's own word for when it began.
type ProcessID struct {
	BootID    string `json:"bootId"`              // empty where the system has none
	Namespace string `json:"namespace,omitempty"` // pid namespace, where pids are only unique in one
	PID       int    `json:"pid"`
	Start     string `json:"start"`
}

// Samples are readings of the machine during a run, every so often: the largest
// sample is not the peak. Schema: samples.v1.json.
type Samples struct {
	Schema          string      `json:"schema"`
	Label           string      `json:"label"`           // what the numbers are, and are not
	IntervalSeconds float64     `json:"intervalSeconds"` // between two samples
	Count           int         `json:"count"`           // samples taken; more than are listed when they were thinned
	Every           int         `json:"every"`           // each how manyth of them is listed
	GPU             string      `json:"gpu"`             // who told of GPUs: nvidia-smi, or absent
	Samples         []Sample    `json:"samples"`
	Maxima          Maxima      `json:"maxima"`     // over all samples taken
	HighWater       []HighWater `json:"highWater"`  // no samples: kept by the kernel
	Unreadable      []string    `json:"unreadable"` // what could not be read, in words
}

// Sample is one reading. Sizes are bytes; a resident size counts pages that
// several processes share once for each of them.
type Sample struct {
	Seconds   float64     `json:"seconds"` // since the run's start, by a clock that is never set
	RSS       int64       `json:"rss"`     // resident size of this program and all processes that it started
	Processes int         `json:"processes"`
	Available int64       `json:"available"` // memory that the system can still give
	Load1     float64     `json:"load1"`     // load average over a minute
	GPUs      []GPUSample `json:"gpus,omitempty"`
}

// GPUSample is one device's reading; what the device does not tell is absent.
type GPUSample struct {
	Index       int      `json:"index"`
	Used        *int64   `json:"used,omitempty"`        // bytes
	Total       *int64   `json:"total,omitempty"`       // bytes
	Utilization *float64 `json:"utilization,omitempty"` // fraction of time, 0 to 1
}

// Maxima are the largest samples (the smallest of what is available).
type Maxima struct {
	RSS       int64   `json:"rss"`
	Available int64   `json:"leastAvailable"`
	Load1     float64 `json:"load1"`
	GPUUsed   int64   `json:"gpuUsed"` // bytes, of all devices together
}

// HighWater is a kernel's high-water mark of the resident size of one process.
type HighWater struct {
	Of     string `json:"of"`     // weighmaster, largest child, or a process' name
	Source string `json:"source"` // where the kernel keeps it
	Bytes  int64  `json:"bytes"`
	Scope  string `json:"scope"` // of what time it is the mark
}

// Receipt tells what else ran on the machine. Names are those of programs:
// no arguments, no users, no folders. Schema: receipt.v1.json.
type Receipt struct {
	Schema        string  `json:"schema"`
	RSSThreshold  int64   `json:"rssThreshold"`  // bytes: others at or above are listed
	LoadThreshold float64 `json:"loadThreshold"` // mean of processors in use: others at or above are listed
	Start         Present `json:"start"`
	End           Present `json:"end"`
	// During has everyone who was above a threshold at any reading.
	During []OtherProcess `json:"during"`
}

// Present is who was there at one moment.
type Present struct {
	At        time.Time      `json:"at"`
	Memory    int64          `json:"memory"`    // bytes in all
	Available int64          `json:"available"` // bytes
	Load1     float64        `json:"load1"`
	CPUs      int            `json:"cpus"`
	Others    []OtherProcess `json:"others"`
	GPU       GPUPresent     `json:"gpu"`
}

// OtherProcess is a program that is no part of the run.
type OtherProcess struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`            // process, or model server
	RSS   int64   `json:"rss"`             // bytes
	Load  float64 `json:"load"`            // processors used, mean since the reading before (since its own start at the first)
	Count int     `json:"count,omitempty"` // readings that saw it; in During only
}

// GPUPresent are the processes of others on GPUs.
type GPUPresent struct {
	Source    string `json:"source"`    // nvidia-smi, or absent
	Processes int    `json:"processes"` // of others
	Used      int64  `json:"used"`      // bytes, by them
}

// Progress is the word of a running stage on itself, written again and again. It
// is no evidence. Schema: progress.v1.json.
type Progress struct {
	Schema          string            `json:"schema"`
	Stage           string            `json:"stage"`
	Uses            string            `json:"uses"`
	Invocation      string            `json:"invocation"`
	Declaration     string            `json:"declaration"` // sha256 of the declaration's canonical JSON, hex
	Inputs          map[string]string `json:"inputs"`      // digest by role
	Process         ProcessID         `json:"process"`
	Tools           []ToolProcess     `json:"tools"` // what it started, at the last writing
	Started         time.Time         `json:"started"`
	Updated         time.Time         `json:"updated"`
	UpdatedUptime   float64           `json:"updatedUptime"`   // seconds since the boot, sleep included; 0 where unknown
	IntervalSeconds float64           `json:"intervalSeconds"` // it is written at least so often
	ElapsedSeconds  float64           `json:"elapsedSeconds"`
	Message         string            `json:"message"`
	Done            int64             `json:"done"`  // bytes
	Total           int64             `json:"total"` // bytes; 0 when unknown
	Rate            float64           `json:"rate"`  // bytes a second since the phase began
	Last            *Sample           `json:"last,omitempty"`
}

// ToolProcess is a process that a stage started.
type ToolProcess struct {
	ProcessID
	Name string `json:"name"`
}
