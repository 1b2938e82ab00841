package azure

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
	"github.com/weighmaster/weighmaster/stages/azure/azuretest"
)

var rented = schemas.Compute{
	Schema: schemas.ComputeURI, Provider: "azure", Subscription: "8c4b1f2e-0000-4000-8000-0123456789ab", ResourceGroup: "rented", Name: "converter",
	VMID: "5f1c2d3e-1111-4111-8111-abcdefabcdef", Size: "Standard_NC24ads_A100_v4",
}

var few = stages.RentalBound{Attempts: 8, Interval: 15 * time.Second, Within: 10 * time.Minute}

// clock is a clock that only sleeping moves.
type clock struct {
	t     time.Time
	slept []time.Duration
	wake  func(n int) // called at the n-th sleep, from 1
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.t }

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.t = c.t.Add(d)
	c.slept = append(c.slept, d)
	if c.wake != nil {
		c.wake(len(c.slept))
	}
	return ctx.Err()
}

func served(t *testing.T) (*azuretest.Server, *Client, *clock) {
	t.Helper()
	s := azuretest.NewServer(azuretest.VM{Subscription: rented.Subscription, ResourceGroup: rented.ResourceGroup, Name: rented.Name, VMID: rented.VMID, Size: rented.Size})
	t.Cleanup(s.Close)
	k := newClock()
	c, err := Connect(rented, Options{Endpoint: s.URL, Now: k.now, Sleep: k.sleep})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, k
}

func TestAMachineIsDeallocatedOverHTTP(t *testing.T) {
	s, c, k := served(t)
	r := c.Release(t.Context(), rented, few)
	if r.Verdict != schemas.Passed || r.State != stages.Deallocated || r.Already || r.Failure != "" {
		t.Fatalf("got %+v", r)
	}
	if s.Deallocations() != 1 {
		t.Errorf("asked %d times, want once", s.Deallocations())
	}
	if !r.Requested.Before(r.Verified) || r.Verified.After(k.now()) {
		t.Errorf("requested %s, verified %s", r.Requested, r.Verified)
	}
	if got := r.Last; got.Disks[0].SizeGiB != 1024 || got.Disks[0].SKU != "StandardSSD_LRS" || got.GPU != "1 × NVIDIA A100 80 GB" || !got.Image.Exact || got.Image.Resolved != "24.04.202611010" ||
		!got.Network.PublicIP || got.Network.Groups != 1 || len(got.Network.Rules) != 1 || got.Network.Rules[0].FromAny {
		t.Errorf("got %+v", got)
	}
	again := c.Release(t.Context(), rented, few)
	if again.Verdict != schemas.Passed || !again.Already || s.Deallocations() != 1 {
		t.Errorf("a second release: got %+v after %d requests; it only looks", again, s.Deallocations())
	}
}

func TestAMachineThatIsStillDeallocatingIsUndecidedAndGoesOn(t *testing.T) {
	s, c, _ := served(t)
	s.SetDeallocation(-1)
	r := c.Release(t.Context(), rented, few)
	if r.Verdict != schemas.Undecided || !strings.Contains(r.Failure, "still PowerState/deallocating after 8 observations") || !strings.Contains(r.Failure, "run this stage again") {
		t.Fatalf("got %s: %s", r.Verdict, r.Failure)
	}
	s.SetDeallocation(0)
	if r = c.Release(t.Context(), rented, few); r.Verdict != schemas.Passed || s.Deallocations() != 1 {
		t.Fatalf("going on: got %s: %s after %d requests, want one", r.Verdict, r.Failure, s.Deallocations())
	}
}

func TestOnlyALoopbackAddressStandsInForAzure(t *testing.T) {
	for _, bad := range []string{"https://management.azure.example", "http://10.0.0.1:80", "http://localhost.example:1", "http://localhost:1", "http://user@127.0.0.1:1", "http://127.0.0.1:1/path", "ftp://127.0.0.1", "http://127.0.0.1.example", ":", "http://0.0.0.0:1"} {
		if _, err := Connect(rented, Options{Endpoint: bad}); err == nil || !strings.Contains(err.Error(), "the test endpoint") {
			t.Errorf("%s: got %v, want a refusal", bad, err)
		}
	}
	for _, good := range []string{"http://127.0.0.1:1", "http://[::1]:1/"} {
		if _, err := Connect(rented, Options{Endpoint: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// A redirect would take the request, and who asks, elsewhere.
func TestARedirectFromTheTestEndpointIsNotFollowed(t *testing.T) {
	s, c, _ := served(t)
	s.SetAnswer(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://192.0.2.1/elsewhere", http.StatusTemporaryRedirect)
		return true
	})
	_, err := c.Observe(t.Context(), rented)
	if err == nil || !strings.Contains(err.Error(), "307") {
		t.Fatalf("got %v, want the redirect refused", err)
	}
}

func TestNoCredentialAndNoAccountIsInWhatIsSaid(t *testing.T) {
	s, c, _ := served(t)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnauthorized} {
		s.SetAnswer(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
				t.Error("no token was sent: the test looks at nothing")
			}
			w.WriteHeader(status)
			body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": "Denied", "message": "The client " + rented.Subscription + " " + r.Header.Get("Authorization") + " has no access over " + r.URL.Path}})
			w.Write(body)
			return true
		})
		r := c.Release(t.Context(), rented, few)
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != schemas.Undecided {
			t.Errorf("%d: got %s: %s", status, r.Verdict, r.Failure)
		}
		for _, secret := range []string{rented.Subscription, rented.ResourceGroup, rented.Name, rented.VMID, "Bearer", "fake_token"} {
			if strings.Contains(string(body), secret) {
				t.Errorf("%d: %s is in %s", status, secret, body)
			}
		}
	}
}
