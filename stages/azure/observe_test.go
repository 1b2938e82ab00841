package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

const networkPrefix = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"

type object = map[string]any

// guarded gives the fake one interface with one group of these rules.
func (f *fakeAzure) guarded(rules ...any) {
	f.network.GetByID = func(_ context.Context, id, version string, _ *armresources.ClientGetByIDOptions) (resp azfake.Responder[armresources.ClientGetByIDResponse], e azfake.ErrorResponder) {
		own := "subscriptions/" + rented.Subscription + "/resourceGroups/"
		properties, found := map[string]any{
			own + rented.ResourceGroup + "/providers/Microsoft.Network/networkInterfaces/nic": object{
				"networkSecurityGroup": object{"id": networkPrefix + "networkSecurityGroups/own"},
				"ipConfigurations": []any{nil, object{"properties": object{
					"publicIPAddress": object{}, "subnet": object{"id": networkPrefix + "virtualNetworks/net/subnets/sub"},
				}}},
			},
			// the same group in another case
			own + "g/providers/Microsoft.Network/virtualNetworks/net/subnets/sub": object{"networkSecurityGroup": object{"id": networkPrefix + "networkSecurityGroups/OWN"}},
			own + "g/providers/Microsoft.Network/networkSecurityGroups/own":       object{"securityRules": rules},
		}[id]
		if !found || version != networkAPI {
			e.SetResponseError(http.StatusNotFound, "ResourceNotFound")
			return
		}
		resp.SetResponse(http.StatusOK, armresources.ClientGetByIDResponse{GenericResource: armresources.GenericResource{Properties: properties}}, nil)
		return
	}
}

func rule(name, access, direction string, sources ...string) object {
	p := object{"access": access, "direction": direction, "priority": 100, "protocol": "Tcp", "destinationPortRange": "22", "sourcePortRange": "*"}
	if len(sources) == 1 {
		p["sourceAddressPrefix"] = sources[0]
	} else {
		p["sourceAddressPrefixes"] = sources
	}
	return object{"name": name, "etag": "unknown here", "properties": p}
}

func names(o Observation) []string {
	list := []string{}
	for _, f := range o.Findings {
		list = append(list, f.Name)
	}
	return list
}

func TestWhoIsLetInIsFound(t *testing.T) {
	const allow, deny, in, out = "Allow", "Deny", "Inbound", "Outbound"
	for name, c := range map[string]struct {
		rule  object
		open  bool
		rules int
	}{
		"anybody":                  {rule("r", allow, in, "*"), true, 1},
		"the internet":             {rule("r", allow, in, "Internet"), true, 1},
		"every IPv4 address":       {rule("r", allow, in, "198.51.100.7/32", "0.0.0.0/0"), true, 1},
		"every IPv6 address":       {rule("r", allow, in, "::/0"), true, 1},
		"one address":              {rule("r", allow, in, "198.51.100.7/32"), false, 1},
		"the own network":          {rule("r", allow, in, "VirtualNetwork"), false, 1},
		"anybody refused":          {rule("r", deny, in, "*"), false, 0},
		"out to anybody":           {rule("r", allow, out, "*"), false, 0},
		"a rule without direction": {object{"properties": object{"access": allow}}, false, 0},
	} {
		f := &fakeAzure{states: []string{"running"}}
		f.guarded(c.rule, nil)
		client, _ := f.client(t)
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(names(o), "open to anybody"); got != c.open || len(o.Network.Rules) != c.rules || !o.Network.PublicIP || o.Network.Groups != 1 {
			t.Errorf("%s: got %v, network %+v; want open to anybody %v", name, o.Findings, o.Network, c.open)
		}
	}
}

// What may not be read is said, and does not keep compute rented.
func TestNetworkRulesThatMayNotBeReadAreAFinding(t *testing.T) {
	f := &fakeAzure{states: []string{"running", "deallocated"}}
	f.network.GetByID = func(context.Context, string, string, *armresources.ClientGetByIDOptions) (resp azfake.Responder[armresources.ClientGetByIDResponse], e azfake.ErrorResponder) {
		e.SetResponseError(http.StatusForbidden, "AuthorizationFailed")
		return
	}
	client, _ := f.client(t)
	r := client.Release(t.Context(), rented, few)
	if r.Verdict != schemas.Passed || !slices.Contains(names(*r.Last), "network not read") {
		t.Errorf("got %s: %s, %v", r.Verdict, r.Failure, r.Last)
	}
}

func TestAnImageIsOneOnlyByItsExactVersion(t *testing.T) {
	gallery := "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/own/images/linux"
	for _, c := range []struct {
		version, exact, id string
		want               bool
	}{
		{"24.04.202611010", "", "", true}, {"latest", "24.04.202611010", "", true}, {"latest", "", "", false}, {"", "", "", false}, {"24.04", "", "", false}, {"latest", "latest", "", false},
		{"", "", gallery, false}, {"", "", gallery + "/versions/latest", false}, {"", "", gallery + "/versions/1.2.3", true},
	} {
		f := &fakeAzure{states: []string{"running"}, edit: func(_ int, vm *armcompute.VirtualMachine) {
			r := vm.Properties.StorageProfile.ImageReference
			r.Version, r.ExactVersion, r.ID = &c.version, &c.exact, &c.id
		}}
		client, _ := f.client(t)
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if o.Image.Exact != c.want || slices.Contains(names(o), "image") == c.want {
			t.Errorf("version %q, exact %q, id %q: got exact %v, findings %v", c.version, c.exact, c.id, o.Image.Exact, o.Findings)
		}
	}
}

func TestWhatDiffersFromTheFileIsFound(t *testing.T) {
	f := &fakeAzure{states: []string{"running"}, edit: func(_ int, vm *armcompute.VirtualMachine) {
		vm.Properties.HardwareProfile.VMSize = to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_D4as_v5"))
		vm.Properties.StorageProfile.OSDisk.DiffDiskSettings = &armcompute.DiffDiskSettings{Option: to.Ptr(armcompute.DiffDiskOptionsLocal)}
	}}
	client, _ := f.client(t)
	m := rented
	m.Image = &schemas.ComputeImage{Publisher: "Canonical", Offer: "ubuntu", SKU: "server", Version: "24.4.2"}
	o, err := client.Observe(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"size", "image", "ephemeral disk"} {
		if !slices.Contains(names(o), want) {
			t.Errorf("no finding %q in %v", want, o.Findings)
		}
	}
	if o.GPU != "none" || !o.Disks[0].Ephemeral {
		t.Errorf("got %+v", o)
	}
}

func TestGraphicsProcessorsAreToldBySize(t *testing.T) {
	for size, want := range map[string]string{
		"Standard_NC24ads_A100_v4": "1 × NVIDIA A100 80 GB", "Standard_NV12ads_A10_v5": "1/3 × NVIDIA A10, 8 GB",
		"Standard_D2s_v5": "none", "Standard_B2ts_v2": "none", "Standard_HB120rs_v3": "none", "Standard_M128ms": "none",
		"Standard_NC999": "unknown", "Standard_Made_up": "unknown", "Basic_A1": "unknown", "": "unknown",
	} {
		if got := GPU(size); got != want {
			t.Errorf("%q: got %s, want %s", size, got, want)
		}
	}
}

// The moments that are recorded are this machine's; how far it is off is said.
func TestAClockThatIsOffIsFound(t *testing.T) {
	for _, c := range []struct {
		off   time.Duration
		found bool
	}{{0, false}, {-59 * time.Second, false}, {2 * time.Hour, true}, {-2 * time.Minute, true}} {
		f := &fakeAzure{states: []string{"running"}}
		client, k := f.client(t)
		f.http = func(r *http.Request) *http.Response {
			resp, err := f.compute().Do(r)
			if err != nil {
				return nil
			}
			resp.Header.Set("Date", k.now().Add(-c.off).In(time.FixedZone("", -7*3600)).UTC().Format(http.TimeFormat))
			return resp
		}
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names(o), "clock") != c.found || o.Skew != c.off.String() {
			t.Errorf("%s off: got skew %s, findings %v", c.off, o.Skew, o.Findings)
		}
	}
}

// Whatever the statuses are, only one exact word is a deallocation.
func TestOnlyOneExactWordIsADeallocation(t *testing.T) {
	for s, want := range map[string]bool{
		"PowerState/deallocated": true, "ProvisioningState/succeeded,PowerState/deallocated": true, "PowerState/deallocated,PowerState/running": false, "PowerState/deallocated,PowerState/deallocated": false,
		"powerstate/deallocated": false, "PowerState/": false, "PowerState/deallocated ": false, "PowerState/deallocated\x00": false, "deallocated": false, "": false,
		"PowerState/" + strings.Repeat("x", 1<<20): false,
	} {
		view := &armcompute.VirtualMachineInstanceView{}
		for code := range strings.SplitSeq(s, ",") {
			view.Statuses = append(view.Statuses, &armcompute.InstanceViewStatus{Code: &code}, nil, &armcompute.InstanceViewStatus{})
		}
		state, why := power(view)
		if (state == stages.Deallocated) != want || (state == "") != (why != "") || len(why) > 2000 {
			t.Errorf("%.80q: got %q (%.300s)", s, state, why)
		}
	}
}

// What names nothing is no machine, not even one that says nothing of itself.
func TestAnEmptyFileIdentifiesNothing(t *testing.T) {
	err := identify(schemas.Compute{}, &armcompute.VirtualMachine{})
	if err == nil || !strings.Contains(err.Error(), "subscription, resource group, name, resource type, resource id, vmId") {
		t.Errorf("got %v, want every field refused", err)
	}
}
