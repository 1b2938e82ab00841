package stages

import (
	"errors"
	"fmt"
	"os"
)

const candidateMark = ".candidate-" // and a number: what a failed run of the stage left

// Continuer is a stage that picks up its own partial files.
type Continuer interface{ Continues() }

// prepareDir gives a stage an empty folder. What a failed run left is moved
// aside as a candidate, never written over.
func prepareDir(stage Stage, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, ok := stage.(Continuer); ok {
		return os.MkdirAll(dir, 0o755)
	}
	if len(entries) > 0 {
		for n := 1; ; n++ {
			candidate := fmt.Sprintf("%s%s%d", dir, candidateMark, n)
			if _, err := os.Lstat(candidate); errors.Is(err, os.ErrNotExist) {
				if err := os.Rename(dir, candidate); err != nil {
					return err
				}
				break
			}
		}
	}
	return os.MkdirAll(dir, 0o755)
}
