package azure

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/weighmaster/weighmaster/schemas"
)

// Options are how a client reaches Azure.
type Options struct {
	// Endpoint, where not empty, is the URL of a test server on this very machine
	// that speaks for Azure: a loopback address and nothing else. No real
	// credential is sent there, and what is recorded says so.
	Endpoint string
	// Credential and Transport are for tests; nil means the default credential
	// chain of azidentity and the default transport.
	Credential azcore.TokenCredential
	Transport  azpolicy.Transporter
	// Now and Sleep are the clock; the real one when nil.
	Now   func() time.Time
	Sleep Sleeper
	// Firmware is the firmware's identity of the machine that this runs on, as a
	// UUID; what the kernel says (Linux, as root) when nil.
	Firmware func() string
}

// Client reaches the machines of one subscription.
type Client struct {
	vms          *armcompute.VirtualMachinesClient
	disks        *armcompute.DisksClient
	resources    *armresources.Client
	subscription string
	endpoint     string
	now          func() time.Time
	sleep        Sleeper
	date         *dateReader
}

// Connect makes a client for the machine's subscription. It sends nothing yet.
func Connect(m schemas.Compute, o Options) (*Client, error) {
	if m.Provider != "azure" {
		return nil, fmt.Errorf("compute provider: got %q, want azure", m.Provider)
	}
	c := &Client{subscription: m.Subscription, now: o.Now, sleep: o.Sleep, date: &dateReader{}}
	if c.now == nil {
		c.now = time.Now
	}
	if c.sleep == nil {
		c.sleep = sleep
	}
	c.date.now = c.now
	opt := &arm.ClientOptions{DisableRPRegistration: true}
	opt.Cloud = clouds[m.Cloud]
	opt.Transport = o.Transport
	opt.Retry.MaxRetries = -1 // this package counts, waits and records retries itself
	opt.Telemetry.Disabled = true
	opt.PerRetryPolicies = []azpolicy.Policy{c.date}
	c.endpoint = opt.Cloud.Services[cloud.ResourceManager].Endpoint
	cred := o.Credential
	if o.Endpoint != "" {
		if err := loopback(o.Endpoint); err != nil {
			return nil, err
		}
		c.endpoint, cred = o.Endpoint, &azfake.TokenCredential{}
		opt.Cloud = cloud.Configuration{
			ActiveDirectoryAuthorityHost: "https://login.invalid",
			Services:                     map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {Endpoint: o.Endpoint, Audience: o.Endpoint}},
		}
		opt.InsecureAllowCredentialWithHTTP = true // the credential is no credential
		opt.Transport = &http.Client{Transport: &http.Transport{Proxy: nil}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if cred == nil {
		var err error
		if cred, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: azcore.ClientOptions{Cloud: opt.Cloud}}); err != nil {
			return nil, fmt.Errorf("azure: no credential: sign in with az login on this machine, or set what azidentity's default credential reads: %w", err)
		}
	}
	cred = credential{cred}
	var err error
	if c.vms, err = armcompute.NewVirtualMachinesClient(m.Subscription, cred, opt); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	if c.disks, err = armcompute.NewDisksClient(m.Subscription, cred, opt); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	if c.resources, err = armresources.NewClient(m.Subscription, cred, opt); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	return c, nil
}

// Endpoint is where Azure Resource Manager is asked.
func (c *Client) Endpoint() string { return c.endpoint }

var clouds = map[string]cloud.Configuration{"": cloud.AzurePublic, "public": cloud.AzurePublic, "government": cloud.AzureGovernment, "china": cloud.AzureChina}

// loopback refuses every endpoint that is not this machine by its address.
func loopback(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return fmt.Errorf("azure: the test endpoint: got %q, want http://127.0.0.1:PORT", endpoint)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("azure: the test endpoint: got the host %q, want a loopback address: elsewhere only Azure itself is asked", u.Hostname())
	}
	return nil
}

// signInError says that there was no token to ask with. What the credential
// says of it is left out: it may repeat an answer of the sign-in service.
type signInError struct{ cause error }

func (e *signInError) Error() string { return noSignIn }
func (e *signInError) Unwrap() error { return e.cause }

// credential marks the errors of another one.
type credential struct{ azcore.TokenCredential }

// GetToken implements azcore's TokenCredential.
func (c credential) GetToken(ctx context.Context, o azpolicy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = &signInError{err}
	}
	return token, err
}

// transportError says that a request got no answer.
type transportError struct{ cause error }

func (e *transportError) Error() string { return noAnswer }
func (e *transportError) Unwrap() error { return e.cause }

// dateReader remembers how far Azure's clock is from ours, by the Date header of answers.
type dateReader struct {
	now   func() time.Time
	mu    sync.Mutex
	skew  time.Duration
	known bool
}

// Do implements azcore's Policy. It also marks requests that got no answer.
func (d *dateReader) Do(req *azpolicy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err != nil {
		return nil, &transportError{err}
	}
	if at, bad := http.ParseTime(resp.Header.Get("Date")); bad == nil {
		d.mu.Lock()
		d.skew, d.known = d.now().Sub(at), true
		d.mu.Unlock()
	}
	return resp, nil
}

func (d *dateReader) read() (skew time.Duration, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.skew, d.known
}
