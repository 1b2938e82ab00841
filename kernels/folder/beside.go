package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// CheckFile is the check of the files beside the weights.
const CheckFile = "file"

// mostKeys is how many keys of one file are named.
const mostKeys = 20

// weights tells the files that hold weights or say in which shard they stand.
func weights(name string) bool {
	for _, pattern := range []string{"model*.safetensors", "*.safetensors.index.json"} {
		if ok, _ := path.Match(pattern, name); ok { // the patterns are well formed
			return true
		}
	}
	return false
}

// prose tells the files that no loader reads.
func prose(name string) bool {
	upper := strings.ToUpper(name)
	for _, pattern := range []string{"README*", "LICENSE*", "NOTICE*", "USE_POLICY*", "*.MD", ".*"} {
		if ok, _ := path.Match(pattern, upper); ok { // the patterns are well formed
			return true
		}
	}
	return false
}

// CompareBeside compares the files at the root of two folders that are neither
// weights nor prose: JSON objects key by key, everything else by its bytes, which are read in steps.
// A key for which skip says true is passed over; skip may be nil. The error is that of reading or of ctx.
func CompareBeside(ctx context.Context, source, target fs.FS, skip func(file, key string) bool) ([]kernels.Finding, error) {
	theirs, err := beside(source)
	if err != nil {
		return nil, err
	}
	ours, err := beside(target)
	if err != nil {
		return nil, err
	}
	found := []kernels.Finding{}
	names := slices.Sorted(maps.Keys(theirs))
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if !theirs[name] {
			found = append(found, kernels.Finding{Check: CheckFile, Where: name, Got: "in the target only", Want: "no such file, as in the source"})
		}
	}
	for _, name := range names {
		if !ours[name] {
			found = append(found, kernels.Finding{Check: CheckFile, Where: name, Got: "no such file", Want: "the source's"})
			continue
		}
		some, err := compareFile(ctx, source, target, name, skip)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// beside lists the files to compare.
func beside(fsys fs.FS) (map[string]bool, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() && !weights(e.Name()) && !prose(e.Name()) {
			names[e.Name()] = true
		}
	}
	return names, nil
}

func compareFile(ctx context.Context, source, target fs.FS, name string, skip func(file, key string) bool) ([]kernels.Finding, error) {
	a, err := source.Open(name)
	if err != nil {
		return nil, fmt.Errorf("folder: source: %w", err)
	}
	defer a.Close()
	b, err := target.Open(name)
	if err != nil {
		return nil, fmt.Errorf("folder: target: %w", err)
	}
	defer b.Close()
	at, err := FirstDifference(ctx, a, b)
	if err != nil || at < 0 {
		return nil, err
	}
	bytes := []kernels.Finding{{Check: CheckFile, Where: fmt.Sprintf("%s: byte %d", name, at), Got: "other bytes", Want: "the source's"}}
	if !strings.HasSuffix(name, ".json") {
		return bytes, nil
	}
	want, err := ReadObject(source, name)
	if err != nil {
		return bytes, unlessJSON(err)
	}
	got, err := ReadObject(target, name)
	if err != nil {
		return bytes, unlessJSON(err)
	}
	return compareKeys(name, got, want, skip), nil
}

// unlessJSON keeps the errors of reading.
func unlessJSON(err error) error {
	if errors.As(err, new(*JSONError)) {
		return nil
	}
	return err
}

func compareKeys(name string, got, want map[string]any, skip func(file, key string) bool) []kernels.Finding {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var found []kernels.Finding
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if Same(got[k], want[k]) || skip != nil && skip(name, k) {
			continue
		}
		if len(found) == mostKeys {
			return append(found, kernels.Finding{Check: CheckFile, Where: name, Got: "more keys with other values", Want: "the source's"})
		}
		found = append(found, kernels.Finding{Check: CheckFile, Where: fmt.Sprintf("%s: %.200s", name, k), Got: Show(got, k), Want: Show(want, k)})
	}
	return found
}
