package isolation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Outside is an address on no network that anybody owns (TEST-NET-1, RFC 5737):
// inside a box the refusal must come from the system at once.
const Outside = "192.0.2.1:9"

// connectTimeout bounds one attempt. A time-out is no refusal and proves nothing.
const connectTimeout = 2 * time.Second

// Attempt is one try to connect and how it ended.
type Attempt struct {
	Address string `json:"address"`
	// Result is "connected", "timeout", an errno's name such as ENETUNREACH, or other words of the system.
	Result string `json:"result"`
}

// Probe tries to connect to every address, in this process.
func Probe(ctx context.Context, addresses ...string) []Attempt {
	list := make([]Attempt, 0, len(addresses))
	for _, a := range addresses {
		list = append(list, Attempt{Address: a, Result: connect(ctx, a)})
	}
	return list
}

func connect(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
		return "connected"
	}
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout" // also ETIMEDOUT
	case errors.As(err, &errno):
		return errnoName(errno)
	}
	return "no errno"
}

// refusals are the errnos by which a system says that there is no network for
// this process. ECONNREFUSED is not one: somebody answered.
var refusals = []string{"ENETUNREACH", "EPERM", "EACCES", "ENETDOWN"}

// Beacon is a listener of this process on loopback: the control that shows
// that the probe can tell a box from its absence.
type Beacon struct{ listener net.Listener }

// NewBeacon starts listening on a free loopback port.
func NewBeacon() (*Beacon, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback for the isolation probe: %w", err)
	}
	go answer(l)
	return &Beacon{listener: l}, nil
}

// answer takes every connection and ends it, until the listener is closed.
func answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

// Address is where the beacon listens.
func (b *Beacon) Address() string { return b.listener.Addr().String() }

// Close stops the beacon.
func (b *Beacon) Close() error { return b.listener.Close() }

// Verdict is what a probe showed.
type Verdict struct {
	Denied    bool
	Statement string // e.g. "network namespace, connect: ENETUNREACH"; why not, when not denied
}

// Judge decides from the attempts made outside (the control, to the beacon) and
// inside the box. ECONNREFUSED denies only where bubblewrap gives the box a
// loopback of its own, and the beacon was reached outside before and after.
func Judge(m Method, outside, inside []Attempt) Verdict {
	no := func(format string, args ...any) Verdict {
		return Verdict{Statement: string(m) + ": " + fmt.Sprintf(format, args...)}
	}
	if m == None {
		return no("no way to take the network from a process works here")
	}
	if len(outside) == 0 || len(inside) < 2 {
		return no("%d attempts outside and %d inside, want at least 1 and 2", len(outside), len(inside))
	}
	for _, a := range outside {
		if a.Result != "connected" {
			return no("the control failed: outside the box %s gave %s, want connected", a.Address, a.Result)
		}
		if !slices.ContainsFunc(inside, func(in Attempt) bool { return in.Address == a.Address }) {
			return no("%s was reached outside and not tried inside", a.Address)
		}
	}
	var names []string
	for _, a := range inside {
		tried := 0
		for _, o := range outside {
			if o.Address == a.Address {
				tried++
			}
		}
		otherLoopback := m == Bubblewrap && a.Result == "ECONNREFUSED" && tried > 1
		if !slices.Contains(refusals, a.Result) && !otherLoopback {
			return no("inside the box %s gave %s, want one of %s at once", a.Address, a.Result, strings.Join(refusals, ", "))
		}
		if !slices.Contains(names, a.Result) {
			names = append(names, a.Result)
		}
	}
	return Verdict{Denied: true, Statement: string(m) + ", connect: " + strings.Join(names, ", ")}
}
