package checkpoints

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/ledger"
)

// Digits of a size's name that its folders repeat, and of the whole name.
const (
	high   = 13
	middle = 3
	whole  = 19
)

// Sizes goes through the tree sizes, holding one folder's names at a time. A
// file that is neither a checkpoint by its name nor an unfinished write is an
// error: it may be one that somebody renamed.
func (d *Dir) Sizes(context.Context) iter.Seq2[int64, error] { return d.walk(func([]string) {}) }

// Newest returns the largest tree size. It lists three folders.
func (d *Dir) Newest(context.Context) (int64, error) {
	for size, err := range d.walk(slices.Reverse[[]string]) {
		return size, err
	}
	return 0, fmt.Errorf("checkpoints: %s: %w", d.path, ledger.ErrNotFound)
}

// walk goes through the sizes, ascending unless turn reverses each folder.
func (d *Dir) walk(turn func([]string)) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		descend(d.path, "", []int{high, high + middle, whole}, turn, yield)
	}
}

// descend goes through a folder whose names have levels[0] digits in all;
// those above have given the first of them.
func descend(path, digits string, levels []int, turn func([]string), yield func(int64, error) bool) bool {
	names, err := list(path, digits, levels)
	if err != nil {
		yield(0, err)
		return false
	}
	turn(names)
	for _, name := range names {
		if len(levels) > 1 {
			if !descend(filepath.Join(path, name), digits+name, levels[1:], turn, yield) {
				return false
			}
			continue
		}
		size, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			yield(0, strange(path, name))
			return false
		}
		if !yield(size, nil) {
			return false
		}
	}
	return true
}

// list returns the names in one folder, ascending.
func list(path, digits string, levels []int) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	defer dir.Close()
	all, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	prefix, length := "", levels[0]-len(digits)
	if len(levels) == 1 { // a file repeats the digits of its folders
		prefix, length = digits, levels[0]
	}
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, ".") || digits == "" && name == latest {
			continue
		}
		if len(name) != length || strings.Trim(name, "0123456789") != "" || !strings.HasPrefix(name, prefix) {
			return nil, strange(path, name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func strange(path, name string) error {
	return fmt.Errorf("checkpoints: %s is not named like a checkpoint, want a tree size of 19 digits in the folders of its first 13 and next 3; move it away or give it its name back", filepath.Join(path, name))
}
