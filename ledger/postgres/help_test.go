package postgres_test

import (
	"testing"
	"time"
)

// waitFor waits until something holds, which it must soon.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for a minute in vain")
		}
	}
}
