package postgrestest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// When says at which side of a message a [Proxy] cuts the connection.
type When int

const (
	Before    When = iota // the server never gets the message
	After                 // the server answers it, and nobody hears the answer
	Meanwhile             // the server gets it, and the client is gone before it answers
)

// Proxy stands between a client and a server's socket and cuts a connection at
// one message of the client's, as a network or a firewall might.
type Proxy struct {
	dir, socket string

	mu    sync.Mutex
	at    int // messages left until the cut; 0 does nothing
	when  When
	fired string // the message at which it cut
}

// NewProxy listens on a socket in a folder of its own until the test ends.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	const name = ".s.PGSQL.5432"
	p := &Proxy{dir: dir, socket: filepath.Join(s.dir, name)}
	l, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// URL names a database behind the proxy.
func (p *Proxy) URL(database string, parameters ...string) string {
	return URL(p.dir, database, parameters...)
}

// Cut makes the proxy cut at the n-th message from now on, from 1. After and
// Meanwhile count only messages that the server answers: queries and the end of
// a pipeline.
func (p *Proxy) Cut(n int, when When) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.when, p.fired = n, when, ""
}

// Fired ends what [Proxy.Cut] began and returns the message at which it cut,
// empty when there were too few.
func (p *Proxy) Fired() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = 0
	return p.fired
}

// now says whether to cut at a message, of which the first byte is the type,
// and when.
func (p *Proxy) now(message []byte) (bool, When) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == 0 || p.when != Before && message[0] != 'Q' && message[0] != 'S' {
		return false, 0
	}
	if p.at--; p.at > 0 {
		return false, 0
	}
	p.fired = string(message[:1])
	if message[0] == 'Q' {
		p.fired = string(message[5 : len(message)-1])
	}
	return true, p.when
}

// isCancel says whether a first message asks the server to cancel what another
// session does. A network that is gone carries none.
func isCancel(message []byte) bool {
	return len(message) >= 9 && binary.BigEndian.Uint32(message[5:]) == 80877102
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return
	}
	defer server.Close()
	answers := &answers{server: server, client: client}
	go answers.copy()
	for first := true; ; first = false {
		message, err := readMessage(client, first)
		if err != nil || first && isCancel(message) {
			return
		}
		cut, when := p.now(message)
		if cut && when == Before {
			return
		}
		wait := answers.swallow(cut)
		if first {
			message = message[1:]
		}
		if _, err := server.Write(message); err != nil {
			return
		}
		if cut && when == Meanwhile {
			client.Close()
		}
		if cut {
			<-wait
			return
		}
	}
}

// readMessage reads one message (PostgreSQL's manual, section 55.2.1). The first
// has no type; it gets a zero byte.
func readMessage(r io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	from := 0
	if first {
		from = 1
	}
	if _, err := io.ReadFull(r, head[from:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:])) - 4
	body, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil || int64(len(body)) != n {
		return nil, io.ErrUnexpectedEOF
	}
	return append(head, body...), nil
}

// answers passes on what a server says until it is told to swallow it.
type answers struct {
	server, client net.Conn

	mu   sync.Mutex
	done chan struct{} // closed when a swallowed answer is complete
}

func (a *answers) swallow(yes bool) <-chan struct{} {
	if !yes {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = make(chan struct{})
	return a.done
}

func (a *answers) copy() {
	defer a.client.Close()
	for {
		message, err := readMessage(a.server, false)
		a.mu.Lock()
		done := a.done
		a.mu.Unlock()
		if done != nil && (err != nil || message[0] == 'Z') {
			close(done)
			return
		}
		if err != nil {
			return
		}
		if done == nil {
			if _, err := a.client.Write(message); err != nil {
				return
			}
		}
	}
}
