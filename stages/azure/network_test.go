package azure

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// answering gives the network's requests one answer and tells what was asked.
func (f *fakeAzure) answering(body string) (asked *[]string) {
	asked = new([]string)
	f.http = func(r *http.Request) *http.Response {
		if !strings.Contains(r.URL.Path, "/Microsoft.Network/") {
			return nil
		}
		*asked = append(*asked, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: readCloser{strings.NewReader(body)}}
	}
	return asked
}

// An answer that cannot be read is no answer without rules.
func TestANetworkAnswerThatCannotBeReadIsAFinding(t *testing.T) {
	for body, want := range map[string]string{
		"<html>sign in</html>": "network not read",
		"[]":                   "network not read",
		`{"properties": 7}`:    "network not read",
		`{"properties": {"networkSecurityGroup": "own"}}`:                                         "network not read",
		`{"properties": {"networkSecurityGroup": {"id": 7}}}`:                                     "network not read",
		`{"properties": {"networkSecurityGroup": {}}}`:                                            "network not read", // a group without an id
		`{"properties": {"ipConfigurations": {}}}`:                                                "network not read",
		`{"properties": {"ipConfigurations": [{"properties": {"subnet": {"id": "elsewhere"}}}]}}`: "network not read",
		`{"properties": {"ipConfigurations": [null, {}, {"properties": null}], "more": [1]}}`:     "no network rules",
		`{"properties": null}`: "no network rules",
		`{}`:                   "no network rules",
	} {
		f := &fakeAzure{states: []string{"running"}}
		f.answering(body)
		client, _ := f.client(t)
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(o); !slices.Equal(got, []string{want}) || o.Network.PublicIP || len(o.Network.Rules) != 0 || o.Network.Groups != 0 {
			t.Errorf("%s: got %v, network %+v; want %s", body, o.Findings, o.Network, want)
		}
	}
}

// Rules that cannot be read are not taken for none.
func TestRulesThatCannotBeReadAreAFinding(t *testing.T) {
	for name, broken := range map[string]any{"a number": 7, "no list of sources": object{"properties": object{"sourceAddressPrefixes": "*"}}, "a priority in words": object{"properties": object{"priority": "first"}}} {
		f := &fakeAzure{states: []string{"running"}}
		f.guarded(rule("r", "Allow", "Inbound", "*"), broken)
		client, _ := f.client(t)
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(names(o), "network not read") || o.Network.Groups != 0 {
			t.Errorf("%s: got %v, network %+v", name, o.Findings, o.Network)
		}
	}
}

// The name of an interface is an answer's: whatever it holds, one resource of
// the machine's own subscription is asked for, in one version.
func TestAnInterfaceIsReadInTheOwnSubscription(t *testing.T) {
	for id, want := range map[string]string{
		"/subscriptions/other/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/nic":       "/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/nic",
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/nic?a=b#c":     "/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/nic%3Fa=b%23c",
		"/subscriptions/s/resourceGroups/g%2f..%2fh/providers/Microsoft.Network/networkInterfaces/nic":  "/resourceGroups/g%252f..%252fh/providers/Microsoft.Network/networkInterfaces/nic",
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/nic":             "/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/nic",
		"/subscriptions/s/providers/Microsoft.Network/networkInterfaces/nic":                            "",
		"https://192.0.2.1/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/interfaces/nic": "",
		"": "",
	} {
		f := &fakeAzure{states: []string{"running"}, edit: func(_ int, vm *armcompute.VirtualMachine) {
			vm.Properties.NetworkProfile.NetworkInterfaces[0].ID = to.Ptr(id)
		}}
		asked := f.answering("{}")
		client, _ := f.client(t)
		o, err := client.Observe(t.Context(), rented)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(*asked) != 0 || !slices.Contains(names(o), "network not read") {
				t.Errorf("%q: asked %q, found %v; want nothing asked", id, *asked, o.Findings)
			}
			continue
		}
		if want = "/subscriptions/" + rented.Subscription + want + "?api-version=" + networkAPI; len(*asked) != 1 || (*asked)[0] != want {
			t.Errorf("%q: asked %q, want %s", id, *asked, want)
		}
	}
}
