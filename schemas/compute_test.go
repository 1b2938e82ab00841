package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/cost"
	"github.com/weighmaster/weighmaster/schemas"
)

const uuid = "8c4b1f2e-0000-4000-8000-0123456789ab"

func rentDocuments() []document {
	one := &cost.Range{Low: "1", High: "2.5"}
	span := cost.Interval{From: moment, To: moment.AddDate(0, 0, 1)}
	return []document{
		{schemas.ComputeURI, &schemas.Compute{
			Schema: schemas.ComputeURI, Provider: "azure", Cloud: "government", Subscription: uuid, ResourceGroup: "group", Name: "machine", VMID: uuid, Size: "Standard_NC24ads_A100_v4",
			Image:     &schemas.ComputeImage{Publisher: "Canonical", Offer: "ubuntu-24_04-lts", SKU: "server", Version: "24.04.202611010"},
			Allocated: &schemas.Allocated{From: moment, Source: "the activity log"}, BusyTags: []string{"in-use"}, Checks: [][]string{{"ssh", "machine", "true"}},
		}},
		{schemas.AllocationURI, &schemas.Allocation{
			Schema: schemas.AllocationURI, Machine: sum.String(), Size: "s", GPU: "none", From: moment, Source: "given", To: moment, Already: true,
			Disks: []schemas.AllocatedDisk{{Role: "os", SizeGiB: 1024, SKU: "StandardSSD_LRS", Persistent: true}},
		}},
		{schemas.CostURI, &cost.Sheet{
			Schema: schemas.CostURI, Title: "t", Currency: "USD", Rates: []cost.Rate{{Name: "r", Amount: "3.673", Per: "hour", Source: "s", Date: "2026-11-01"}},
			Compute:  []cost.Compute{{What: "w", Rate: "r", Hours: one, Intervals: []cost.Interval{span}, Machine: sum.String()}},
			Storage:  []cost.Storage{{What: "w", Rate: "r", Hours: one, Window: &span}},
			Transfer: []cost.Transfer{{What: "w", Rate: "r", Gigabytes: one, Bytes: "148709000000", Allowance: one}}, Assumptions: []string{"a"}, Exclusions: []string{"e"},
		}},
	}
}

// What names a machine names exactly one, and what starts a rent is a moment.
func TestAMachinesFileIsExact(t *testing.T) {
	head := "schema: " + schemas.ComputeURI + "\nprovider: azure\nsubscription: " + uuid + "\nresourceGroup: group\nname: machine\nvmId: " + uuid + "\nsize: Standard_D4as_v5\n"
	var m schemas.Compute
	if err := schemas.DecodeYAML("vm.yaml", []byte(head+"allocated: {from: 2026-11-30T10:00:00+01:00, source: s}\n"), schemas.ComputeURI, &m); err != nil || m.Allocated.From.UTC().Hour() != 9 {
		t.Fatalf("%v: %+v", err, m)
	}
	for name, c := range map[string]struct{ old, new string }{
		"latest":                  {"size:", "image: {publisher: p, offer: o, sku: s, version: latest}\nsize:"},
		"a version of two":        {"size:", "image: {publisher: p, offer: o, sku: s, version: \"24.04\"}\nsize:"},
		"another provider":        {"azure", "aws"},
		"a name instead of an id": {"subscription: " + uuid, "subscription: production"},
		"a path as a group":       {"resourceGroup: group", "resourceGroup: group/../other"},
		"a path as a name":        {"name: machine", "name: machine/extensions/x"},
		"no vmId":                 {"vmId: " + uuid + "\n", ""},
		"a start without a zone":  {"size:", "allocated: {from: 2026-11-30T10:00:00, source: s}\nsize:"},
		"a start without source":  {"size:", "allocated: {from: 2026-11-30T10:00:00Z}\nsize:"},
		"an empty check":          {"size:", "checks: [[]]\nsize:"},
		"a credential":            {"size:", "clientSecret: x\nsize:"},
	} {
		if !strings.Contains(head, c.old) {
			t.Fatalf("%s: nothing is changed", name)
		}
		if err := schemas.DecodeYAML("vm.yaml", []byte(strings.Replace(head, c.old, c.new, 1)), schemas.ComputeURI, &m); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzRentDocuments: a file about a rented machine or its costs is refused, or
// says the same again when what was read is written and read once more.
func FuzzRentDocuments(f *testing.F) {
	for i, d := range rentDocuments() {
		body, err := json.Marshal(d.full)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), body)
	}
	f.Add(uint8(0), []byte("schema: "+schemas.ComputeURI+"\nprovider: azure\nvmId: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		kinds := []document{{schemas.ComputeURI, &schemas.Compute{}}, {schemas.AllocationURI, &schemas.Allocation{}}, {schemas.CostURI, &cost.Sheet{}}}
		d := kinds[int(which)%len(kinds)]
		if schemas.DecodeYAML("f", body, d.uri, d.full) != nil {
			return
		}
		once, err := json.Marshal(d.full)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas.DecodeYAML("f", once, d.uri, d.full); err != nil {
			t.Fatalf("what was read is refused when it is written again: %v: %s", err, once)
		}
	})
}
