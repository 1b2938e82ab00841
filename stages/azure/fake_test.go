package azure

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	resourcesfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3/fake"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// fakeAzure is the SDK's own fake server, with one machine.
type fakeAzure struct {
	transport *computefake.VirtualMachinesServerTransport // keeps operations from one request to the next
	reads     int
	asked     int
	edit      func(read int, vm *armcompute.VirtualMachine)                  // changes the n-th answer, from 1
	fault     func(read int) (status int, code string, err error)            // fails the n-th read
	ask       func(n int, f *fakeAzure) (status int, code string, err error) // fails the n-th request
	poller    func(p *azfake.PollerResponder[armcompute.VirtualMachinesClientDeallocateResponse])
	states    []string // one a read, the last for all that follow
	network   resourcesfake.Server
	http      func(r *http.Request) *http.Response // answers before the fake does
}

func (f *fakeAzure) machine() armcompute.VirtualMachine {
	prefix := "/subscriptions/" + rented.Subscription + "/resourceGroups/" + rented.ResourceGroup + "/providers/"
	return armcompute.VirtualMachine{
		ID: to.Ptr(ResourceID(rented)), Name: to.Ptr(rented.Name), Type: to.Ptr(resourceType), Location: to.Ptr("eastus"),
		Properties: &armcompute.VirtualMachineProperties{
			VMID:            to.Ptr(rented.VMID),
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(rented.Size))},
			StorageProfile: &armcompute.StorageProfile{
				ImageReference: &armcompute.ImageReference{Publisher: to.Ptr("Canonical"), Offer: to.Ptr("ubuntu"), SKU: to.Ptr("server"), Version: to.Ptr("24.4.1")},
				OSDisk:         &armcompute.OSDisk{Name: to.Ptr("os"), DiskSizeGB: to.Ptr(int32(1024)), ManagedDisk: &armcompute.ManagedDiskParameters{StorageAccountType: to.Ptr(armcompute.StorageAccountTypesStandardSSDLRS)}},
			},
			NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: to.Ptr(prefix + "Microsoft.Network/networkInterfaces/nic")}}},
			InstanceView:   &armcompute.VirtualMachineInstanceView{Statuses: []*armcompute.InstanceViewStatus{{Code: to.Ptr("ProvisioningState/succeeded")}}},
		},
	}
}

func (f *fakeAzure) get(context.Context, string, string, *armcompute.VirtualMachinesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientGetResponse], e azfake.ErrorResponder) {
	f.reads++
	if f.fault != nil {
		if status, code, err := f.fault(f.reads); err != nil {
			e.SetError(err)
			return
		} else if status != 0 {
			e.SetResponseError(status, code)
			return
		}
	}
	vm := f.machine()
	state := f.states[min(f.reads, len(f.states))-1]
	for _, code := range strings.Split(state, ",") {
		if code != "" {
			vm.Properties.InstanceView.Statuses = append(vm.Properties.InstanceView.Statuses, &armcompute.InstanceViewStatus{Code: to.Ptr(powerPrefix + code)})
		}
	}
	if f.edit != nil {
		f.edit(f.reads, &vm)
	}
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: vm}, nil)
	return
}

func (f *fakeAzure) deallocate(context.Context, string, string, *armcompute.VirtualMachinesClientBeginDeallocateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientDeallocateResponse], e azfake.ErrorResponder) {
	f.asked++
	if f.ask != nil {
		if status, code, err := f.ask(f.asked, f); err != nil {
			e.SetError(err)
			return
		} else if status != 0 {
			e.SetResponseError(status, code)
			return
		}
	}
	if f.poller != nil {
		f.poller(&resp)
		return
	}
	resp.AddNonTerminalResponse(http.StatusAccepted, nil)
	resp.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientDeallocateResponse{}, nil)
	return
}

// Do implements azcore's Transporter: the machine's fake, or the network's.
func (f *fakeAzure) Do(r *http.Request) (*http.Response, error) {
	if f.http != nil {
		if resp := f.http(r); resp != nil {
			return resp, nil
		}
	}
	if strings.Contains(r.URL.Path, "/Microsoft.Network/") {
		return resourcesfake.NewServerTransport(&f.network).Do(r)
	}
	return f.compute().Do(r)
}

func (f *fakeAzure) compute() interface {
	Do(*http.Request) (*http.Response, error)
} {
	if f.transport == nil {
		f.transport = computefake.NewVirtualMachinesServerTransport(&computefake.VirtualMachinesServer{Get: f.get, BeginDeallocate: f.deallocate})
	}
	return f.transport
}

func (f *fakeAzure) client(t *testing.T) (*Client, *clock) {
	t.Helper()
	k := newClock()
	c, err := Connect(rented, Options{Credential: &azfake.TokenCredential{}, Transport: f, Now: k.now, Sleep: k.sleep})
	if err != nil {
		t.Fatal(err)
	}
	return c, k
}

var errCut = errors.New("connection reset by peer")

func TestEveryWayInWhichADeallocationFails(t *testing.T) {
	other := "5f1c2d3e-9999-4999-8999-abcdefabcdef"
	type machine = armcompute.VirtualMachine
	for name, c := range map[string]struct {
		fake    fakeAzure
		verdict schemas.Verdict
		want    string // in the failure
		asked   int    // requests for deallocation
	}{
		"running, then deallocated":                {fakeAzure{states: []string{"running", "deallocating", "deallocated"}}, schemas.Passed, "", 1},
		"stopped, then deallocated":                {fakeAzure{states: []string{"stopped", "deallocated"}}, schemas.Passed, "", 1},
		"deallocated before":                       {fakeAzure{states: []string{"deallocated"}}, schemas.Passed, "", 0},
		"somebody else's deallocation under way":   {fakeAzure{states: []string{"deallocating", "deallocated"}}, schemas.Passed, "", 0},
		"deallocating for long":                    {fakeAzure{states: []string{"running", "deallocating"}}, schemas.Undecided, "still PowerState/deallocating after 8 observations", 1},
		"stopped but allocated":                    {fakeAzure{states: []string{"running", "stopping", "stopped"}}, schemas.Failed, "stopped is not deallocated: a stopped guest keeps its hardware", 1},
		"running although the operation ended":     {fakeAzure{states: []string{"running"}}, schemas.Failed, "PowerState/running after the operation ended, want PowerState/deallocated", 1},
		"running again while deallocating":         {fakeAzure{states: []string{"running", "deallocating", "starting", "running"}}, schemas.Failed, "PowerState/running after", 1},
		"somebody else's deallocation came undone": {fakeAzure{states: []string{"deallocating", "running"}}, schemas.Failed, "deallocating and then PowerState/running again", 0},
		"running again before it is confirmed":     {fakeAzure{states: []string{"running", "deallocating", "deallocated", "running"}}, schemas.Failed, "deallocated and then PowerState/running", 1},
		"no power state":                           {fakeAzure{states: []string{""}}, schemas.Undecided, "no power state among 1 statuses", 1},
		"two power states":                         {fakeAzure{states: []string{"running", "deallocated,running"}}, schemas.Undecided, "2 power states", 1},
		"an unknown power state":                   {fakeAzure{states: []string{"running", "released"}}, schemas.Undecided, `"PowerState/released", which is none of`, 1},
		"another case of the word":                 {fakeAzure{states: []string{"running", "Deallocated"}}, schemas.Undecided, `"PowerState/Deallocated", which is none of`, 1},
		"no instance view": {fakeAzure{states: []string{"running", ""}, edit: func(n int, vm *machine) {
			if n > 1 {
				vm.Properties.InstanceView = nil
			}
		}}, schemas.Undecided, "no instance view", 1},
		"forbidden to read":         {fakeAzure{fault: func(int) (int, string, error) { return http.StatusForbidden, "AuthorizationFailed", nil }}, schemas.Undecided, `read the machine: Azure answered 403 "AuthorizationFailed"`, 0},
		"no such machine":           {fakeAzure{fault: func(int) (int, string, error) { return http.StatusNotFound, "ResourceNotFound", nil }}, schemas.Undecided, "not shown to be deallocated", 0},
		"throttled for ever":        {fakeAzure{fault: func(int) (int, string, error) { return http.StatusTooManyRequests, "TooManyRequests", nil }}, schemas.Undecided, "429", 0},
		"throttled twice":           {fakeAzure{states: []string{"running", "running", "running", "deallocating", "deallocated"}, fault: func(n int) (int, string, error) { return map[int]int{1: 429, 2: 503}[n], "Busy", nil }}, schemas.Passed, "", 1},
		"gone in the middle":        {fakeAzure{states: []string{"running"}, fault: func(n int) (int, string, error) { return map[int]int{2: 404}[n], "ResourceNotFound", nil }}, schemas.Undecided, "not shown to be deallocated", 1},
		"no network at all":         {fakeAzure{fault: func(int) (int, string, error) { return 0, "", errCut }}, schemas.Undecided, "there was no answer", 0},
		"forbidden to deallocate":   {fakeAzure{states: []string{"running"}, ask: func(int, *fakeAzure) (int, string, error) { return http.StatusForbidden, "AuthorizationFailed", nil }}, schemas.Undecided, "ask for deallocation: Azure answered 403", 1},
		"the request was throttled": {fakeAzure{states: []string{"running", "running", "deallocated"}, ask: func(n int, _ *fakeAzure) (int, string, error) { return map[int]int{1: 429}[n], "TooManyRequests", nil }}, schemas.Passed, "", 2},
		"another operation runs": {fakeAzure{states: []string{"running", "running", "deallocated"}, ask: func(n int, _ *fakeAzure) (int, string, error) {
			return map[int]int{1: 409}[n], "OperationNotAllowed", nil
		}}, schemas.Passed, "", 2},
		"accepted, the answer lost":  {fakeAzure{states: []string{"running", "deallocating", "deallocated"}, ask: func(n int, _ *fakeAzure) (int, string, error) { return 0, "", errCut }}, schemas.Passed, "", 1},
		"never arrived, asked again": {fakeAzure{states: []string{"running", "running", "deallocated"}, ask: func(n int, _ *fakeAzure) (int, string, error) { return 0, "", map[int]error{1: errCut}[n] }}, schemas.Passed, "", 2},
		"every request is lost":      {fakeAzure{states: []string{"running"}, ask: func(int, *fakeAzure) (int, string, error) { return 0, "", errCut }}, schemas.Undecided, "ask for deallocation: there was no answer", 8},
		"the operation failed": {fakeAzure{states: []string{"running"}, poller: func(p *azfake.PollerResponder[armcompute.VirtualMachinesClientDeallocateResponse]) {
			p.AddNonTerminalResponse(http.StatusAccepted, nil)
			p.SetTerminalError(http.StatusBadRequest, "VMStopTimedOut")
		}}, schemas.Failed, `the operation ended with an error: ask for the operation: Azure answered 400 "VMStopTimedOut"`, 1},
		"the operation cannot be asked": {fakeAzure{states: []string{"running", "running", "deallocating", "deallocated"}, poller: func(p *azfake.PollerResponder[armcompute.VirtualMachinesClientDeallocateResponse]) {
			p.AddNonTerminalResponse(http.StatusAccepted, nil)
			p.AddPollingError(errCut)
			p.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientDeallocateResponse{}, nil)
		}}, schemas.Passed, "", 1},
		"another machine": {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.Properties.VMID = to.Ptr(other) }}, schemas.Failed, "a different vmId, want the machine of the file; nothing was asked of it", 0},
		"no vmId":         {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.Properties.VMID = nil }}, schemas.Failed, "a different vmId", 0},
		"no properties":   {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.Properties = nil }}, schemas.Failed, "a different vmId", 0},
		"another name":    {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.Name = to.Ptr("converter2") }}, schemas.Failed, "a different name", 0},
		"another subscription in the id": {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) {
			vm.ID = to.Ptr(strings.Replace(*vm.ID, rented.Subscription, other, 1))
		}}, schemas.Failed, "a different subscription, resource id", 0},
		"another group in the id": {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) {
			vm.ID = to.Ptr(strings.Replace(*vm.ID, "/rented/", "/production/", 1))
		}}, schemas.Failed, "a different resource group, resource id", 0},
		"an id that is none": {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.ID = to.Ptr("converter") }}, schemas.Failed, "a different subscription, resource group, resource id", 0},
		"another type":       {fakeAzure{states: []string{"running"}, edit: func(_ int, vm *machine) { vm.Type = to.Ptr("Microsoft.Compute/disks") }}, schemas.Failed, "a different resource type", 0},
		"the same in capitals": {fakeAzure{states: []string{"running", "deallocated"}, edit: func(_ int, vm *machine) {
			vm.ID, vm.Name, vm.Properties.VMID = to.Ptr(strings.ToUpper(*vm.ID)), to.Ptr(strings.ToUpper(*vm.Name)), to.Ptr(strings.ToUpper(*vm.Properties.VMID))
		}}, schemas.Passed, "", 1},
		"made again since the identity was checked": {fakeAzure{states: []string{"running", "deallocating", "deallocated"}, edit: func(n int, vm *machine) {
			if n > 2 {
				vm.Properties.VMID = to.Ptr(other)
			}
		}}, schemas.Failed, "since the identity was checked the machine became another", 1},
		"made again right before it is confirmed": {fakeAzure{states: []string{"deallocated"}, edit: func(n int, vm *machine) {
			if n > 1 {
				vm.Properties.VMID = to.Ptr(other)
			}
		}}, schemas.Failed, "a different vmId", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.fake
			client, k := f.client(t)
			r := client.Release(t.Context(), rented, few)
			if r.Verdict != c.verdict || !strings.Contains(r.Failure, c.want) || (r.Verdict == schemas.Passed) != (r.Failure == "") {
				t.Errorf("got %s: %s; want %s: %s", r.Verdict, r.Failure, c.verdict, c.want)
			}
			if f.asked != c.asked {
				t.Errorf("asked %d times for deallocation, want %d", f.asked, c.asked)
			}
			if r.Verdict == schemas.Passed && (r.State != stages.Deallocated || r.Verified.IsZero() || r.Last == nil || r.Last.Power != stages.Deallocated || r.Already != (name == "deallocated before")) {
				t.Errorf("passed without the word for it: %+v", r)
			}
			if f.reads > few.Attempts+1 || k.now().Sub(newClock().t) > few.Within {
				t.Errorf("%d reads in %s, beyond the bound", f.reads, k.now().Sub(newClock().t))
			}
		})
	}
}

// Retry-After is kept, and never beyond the bound.
func TestRetryAfterIsKeptWithinTheBound(t *testing.T) {
	for _, c := range []struct {
		after   string
		verdict schemas.Verdict
		slept   time.Duration // the first time
	}{{"47", schemas.Passed, 47 * time.Second}, {"3", schemas.Passed, 15 * time.Second}, {"86400", schemas.Undecided, 0}, {"-5", schemas.Passed, 15 * time.Second}, {"soon", schemas.Passed, 15 * time.Second}} {
		f := &fakeAzure{states: []string{"deallocated"}}
		n := 0
		f.http = func(r *http.Request) *http.Response {
			if n++; n > 1 {
				return nil
			}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {c.after}}, Body: http.NoBody, Request: r}
		}
		client, k := f.client(t)
		r := client.Release(t.Context(), rented, few)
		var first time.Duration
		if len(k.slept) > 0 {
			first = k.slept[0]
		}
		if r.Verdict != c.verdict || first != c.slept {
			t.Errorf("Retry-After %s: got %s (%s) after a sleep of %s, want %s after %s", c.after, r.Verdict, r.Failure, first, c.verdict, c.slept)
		}
	}
}

func TestAnInterruptedReleaseGoesOn(t *testing.T) {
	f := &fakeAzure{states: []string{"running", "deallocating", "deallocating", "deallocated"}}
	client, k := f.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	k.wake = func(n int) {
		if n == 2 {
			cancel()
		}
	}
	r := client.Release(ctx, rented, few)
	if r.Verdict != schemas.Undecided || !strings.Contains(r.Failure, "interrupted: still PowerState/deallocating; deallocation was asked for") {
		t.Fatalf("got %s: %s", r.Verdict, r.Failure)
	}
	k.wake = nil
	if r = client.Release(t.Context(), rented, few); r.Verdict != schemas.Passed || f.asked != 1 {
		t.Errorf("going on: got %s: %s after %d requests", r.Verdict, r.Failure, f.asked)
	}
}

func TestNobodySignedIn(t *testing.T) {
	f := &fakeAzure{states: []string{"running"}}
	cred := &azfake.TokenCredential{}
	cred.SetError(errors.New("AADSTS700082: the refresh token of somebody@example.org expired"))
	c, err := Connect(rented, Options{Credential: cred, Transport: f, Now: newClock().now, Sleep: newClock().sleep})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Release(t.Context(), rented, few)
	if r.Verdict != schemas.Undecided || !strings.Contains(r.Failure, "nobody is signed in") || strings.Contains(r.Failure, "somebody") || f.reads != 0 {
		t.Errorf("got %s: %s", r.Verdict, r.Failure)
	}
}

func TestAnAnswerThatIsNoMachineIsRefused(t *testing.T) {
	for _, body := range []string{"<html>sign in</html>", "{", "[]", `{"properties": 7}`} {
		f := &fakeAzure{}
		f.http = func(r *http.Request) *http.Response {
			w := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
			w.Body = readCloser{strings.NewReader(body)}
			return w
		}
		client, _ := f.client(t)
		if r := client.Release(t.Context(), rented, few); r.Verdict != schemas.Undecided || !strings.Contains(r.Failure, "could not be read") {
			t.Errorf("%s: got %s: %s", body, r.Verdict, r.Failure)
		}
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
