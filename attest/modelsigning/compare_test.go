package modelsigning_test

import (
	"context"
	"crypto"
	"maps"
	"slices"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"pgregory.net/rapid"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
)

// TestOnlyTheSignedSetCompares signs one random set of files and holds another
// against it: it compares without a difference if it is the same set, and only then.
func TestOnlyTheSignedSetCompares(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := verifier(t, key.Public())
	set := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "a/c", "d.txt", "a-b", "é", ".x", "e/f/g"}), rapid.SampledFrom([]string{"", "x", "y", "z"}), 1, 6)
	rapid.Check(t, func(t *rapid.T) {
		signed, other := set.Draw(t, "signed"), set.Draw(t, "other")
		if rapid.Bool().Draw(t, "near") {
			other = maps.Clone(signed)
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(other))).Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				delete(other, name)
			case 1:
				other[name] += "!"
			case 2:
				other["added"] = ""
			}
		}
		bundle, err := modelsigning.Sign(context.Background(), key, modelOf(signed), nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := modelsigning.Verify(context.Background(), bundle, v, []crypto.PublicKey{key.Public()}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Manifest.Compare(modelOf(other)); (len(got) == 0) != maps.Equal(signed, other) {
			t.Errorf("signed %v, there %v: %+v", signed, other, got)
		}
	})
}

func modelOf(files map[string]string) modelsigning.Model {
	m := modelsigning.Model{Name: "m"}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.Resources = append(m.Resources, modelsigning.Resource{Name: name, Digest: godigest.FromString(files[name])})
	}
	return m
}
