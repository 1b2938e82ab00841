package machine

import (
	"strconv"

	"github.com/weighmaster/weighmaster/schemas"
)

// Facts are what a policy may read of a run's samples and receipt. A fact that
// could not be measured is absent: nothing is ever taken for zero.
func Facts(s schemas.Samples, r schemas.Receipt) map[string]string {
	facts := map[string]string{}
	if s.Maxima.RSS > 0 {
		facts[schemas.FactSampledPeakRSS] = strconv.FormatInt(s.Maxima.RSS, 10)
	}
	var mark int64
	for _, h := range s.HighWater {
		mark = max(mark, h.Bytes)
	}
	if mark > 0 {
		facts[schemas.FactHighWaterRSS] = strconv.FormatInt(mark, 10)
	}
	if s.Maxima.RSS == 0 {
		return facts // no process was seen, not even this one: nobody else can be counted
	}
	servers := 0
	for _, o := range r.During {
		if o.Kind == modelServer {
			servers++
		}
	}
	facts[schemas.FactOthersRunning] = strconv.Itoa(len(r.During) + max(r.Start.GPU.Processes, r.End.GPU.Processes))
	facts[schemas.FactModelServers] = strconv.Itoa(servers)
	return facts
}
