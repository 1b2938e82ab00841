package sshtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy carries connections on loopback and cuts them when told.
type proxy struct {
	l      net.Listener
	target string

	mu    sync.Mutex
	limit int64 // bytes in one direction before the cut; negative: none
	cut   int
}

func newProxy(t testing.TB, target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, target: target, limit: -1}
	t.Cleanup(func() { _ = l.Close() })
	go p.serve()
	return p, nil
}

func (p *proxy) port() int { return p.l.Addr().(*net.TCPAddr).Port }

func (p *proxy) cutAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = n
}

func (p *proxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		end := func() { _, _ = client.Close(), server.Close() }
		go p.carry(client, server, end)
		go p.carry(server, client, end)
	}
}

// carry copies one direction until its end, or the cut.
func (p *proxy) carry(to, from net.Conn, end func()) {
	defer end()
	buf := make([]byte, 16<<10)
	var done int64
	for {
		n, err := from.Read(buf)
		if done += int64(n); p.cutsAt(done) {
			return
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			if err == io.EOF && werr == nil {
				if half, ok := to.(*net.TCPConn); ok {
					_ = half.CloseWrite()
				}
			}
			return
		}
	}
}

// cutsAt tells whether a connection with that many bytes is cut, once.
func (p *proxy) cutsAt(done int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit < 0 || done <= p.limit {
		return false
	}
	p.limit = -1
	p.cut++
	return true
}
