package token_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/kernels/token"
)

func TestLimitsAreAsStated(t *testing.T) {
	for _, l := range token.Kernel().Limits {
		if err := l.Probe(t.Context()); err != nil {
			t.Errorf("%s: %v", l.What, err)
		}
	}
}
