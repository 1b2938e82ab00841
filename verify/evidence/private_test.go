package evidence_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/verify/evidence"
)

// privateExample is a package for another machine of one's own.
func privateExample() *evidence.Package {
	p := example()
	body := []byte("a raw answer")
	d := godigest.FromBytes(body)
	p.Index.Private = []evidence.Private{{Object: evidence.Object{Digest: d, Size: int64(len(body)), MediaType: "text/plain"}}}
	p.Private = map[godigest.Digest][]byte{d: body}
	return p
}

func TestAPrivatePackageIsMarkedAndNotPublishable(t *testing.T) {
	body := written(t, privateExample())
	p, err := read(body)
	if err != nil {
		t.Fatal(err)
	}
	var private *evidence.PrivateError
	if err := p.Publishable(); !errors.As(err, &private) || private.Objects != 1 || !strings.Contains(err.Error(), "another machine of one's own") {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(written(t, p), body) {
		t.Error("it does not read back as itself")
	}
	public, err := read(written(t, example()))
	if err != nil || public.Publishable() != nil || public.Private != nil {
		t.Errorf("a public package: %v, %v", err, public.Publishable())
	}
}

func TestAPrivateObjectIsNamedAndThere(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(p *evidence.Package)
		why string
	}{
		"named and not there": {func(p *evidence.Package) { p.Private = nil }, "0 private objects, and evidence.json names 1"},
		"there and not named": {func(p *evidence.Package) { p.Index.Private = nil }, "1 private objects, and evidence.json names 0"},
		"another one is there": {func(p *evidence.Package) {
			p.Private = map[godigest.Digest][]byte{godigest.FromString("x"): []byte("x")}
		}, "is named and not there"},
	} {
		p := privateExample()
		c.do(p)
		if err := p.Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %v, want %q", name, err, c.why)
		}
	}
	p := privateExample()
	p.Index.Private[0].Size++
	if _, err := read(written(t, p)); err == nil || !strings.Contains(err.Error(), "13 as evidence.json says") {
		t.Errorf("another size: %v", err)
	}
}
