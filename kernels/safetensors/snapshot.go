package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// SingleName is the file of a model that is not split.
const SingleName = "model.safetensors"

// Snapshot is a publisher's folder whose index and shards agree: every tensor
// of the index in its shard, every tensor of a shard in the index, none twice,
// no shard that the index does not name.
type Snapshot struct {
	Shards []Shard // in file-name order
	Index  *Index  // nil for a single model.safetensors

	tensors []SnapshotTensor
	byName  map[string]int
	files   []fs.File
}

// Shard is one open file of a snapshot.
type Shard struct {
	Name string
	File *File
	R    io.ReaderAt
}

// SnapshotTensor is a tensor and the position of its shard in [Snapshot.Shards].
type SnapshotTensor struct {
	TensorInfo
	Shard int
}

// SnapshotError lists everything that is wrong with a folder.
type SnapshotError struct {
	Findings []kernels.Finding
}

func (e *SnapshotError) Error() string { return "safetensors: " + kernels.Lines(e.Findings) }

// OpenSnapshot opens the model of a folder: model.safetensors.index.json with
// its shards, or one model.safetensors. Files have to be regular ones that
// implement io.ReaderAt. Errors are [*SnapshotError] or those of fsys.
func OpenSnapshot(fsys fs.FS) (*Snapshot, error) {
	s, findings, err := openSnapshot(fsys)
	if err == nil && len(findings) > 0 {
		err = &SnapshotError{Findings: findings}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openSnapshot opens what can be opened and reports the rest. The snapshot is
// to be closed in every case.
func openSnapshot(fsys fs.FS) (*Snapshot, []kernels.Finding, error) {
	s := &Snapshot{byName: map[string]int{}}
	present, err := shardFiles(fsys)
	if err != nil {
		return s, nil, err
	}
	index, found, err := openIndex(fsys)
	if err != nil || len(found) > 0 {
		return s, found, err
	}
	s.Index = index
	names := []string{SingleName}
	if index != nil {
		names = index.shards()
	}
	for _, name := range names {
		f, err := s.open(fsys, name)
		if err != nil {
			found = append(found, asFinding(name, err))
			continue
		}
		for _, t := range f.Tensors {
			s.tensors = append(s.tensors, SnapshotTensor{TensorInfo: t, Shard: len(s.Shards) - 1})
		}
	}
	found = append(found, crossCheck(index, present, s.Shards)...)
	for i, t := range s.tensors {
		s.byName[t.Name] = i
	}
	return s, found, nil
}

// shardFiles lists the files that a loader which globs would take.
func shardFiles(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("safetensors: read the folder: %w", err)
	}
	var names []string
	for _, e := range entries {
		if ok, _ := path.Match("model*.safetensors", e.Name()); ok { // the pattern is well formed
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func openIndex(fsys fs.FS) (*Index, []kernels.Finding, error) {
	f, err := fsys.Open(IndexName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	defer f.Close()
	index, err := ReadIndex(f)
	if err != nil {
		return nil, []kernels.Finding{asFinding(IndexName, err)}, nil
	}
	return index, nil, nil
}

// open opens one shard and appends it.
func (s *Snapshot) open(fsys fs.FS, name string) (*File, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, file)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	r, ok := file.(io.ReaderAt)
	if !ok || !info.Mode().IsRegular() {
		return nil, &FormatError{What: "file", Got: info.Mode().Type().String() + " or without random access", Want: "a regular file"}
	}
	f, err := Open(r, info.Size())
	if err != nil {
		return nil, err
	}
	s.Shards = append(s.Shards, Shard{Name: name, File: f, R: r})
	return f, nil
}

// asFinding turns the refusal of one file into a finding.
func asFinding(name string, err error) kernels.Finding {
	var bad *FormatError
	switch {
	case errors.As(err, &bad):
		return kernels.Finding{Check: CheckFormat, Where: fmt.Sprintf("%s: byte %d: %s", name, bad.Offset, bad.What), Got: bad.Got, Want: bad.Want, Hint: bad.Next}
	case errors.Is(err, fs.ErrNotExist):
		return kernels.Finding{Check: CheckMissingShard, Where: name, Got: "no such file", Want: "the shard", Hint: "fetch it, or the index beside which it belongs"}
	}
	return kernels.Finding{Check: CheckFormat, Where: name, Got: err.Error(), Want: "a readable file"}
}

// Tensors lists all tensors, by shard and then by offset. The slice is not to be changed.
func (s *Snapshot) Tensors() []SnapshotTensor { return s.tensors }

// Lookup finds a tensor by name.
func (s *Snapshot) Lookup(name string) (SnapshotTensor, bool) {
	i, ok := s.byName[name]
	if !ok {
		return SnapshotTensor{}, false
	}
	return s.tensors[i], true
}

// Section reads the bytes of a tensor of this snapshot.
func (s *Snapshot) Section(t SnapshotTensor) *io.SectionReader {
	return s.Shards[t.Shard].File.Section(t.TensorInfo)
}

// Close closes the shards.
func (s *Snapshot) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// crossCheck compares the index, the shard files that are present and the
// tensors that the opened shards hold. Without an index there is one shard.
func crossCheck(index *Index, present []string, shards []Shard) []kernels.Finding {
	indexed := map[string]bool{SingleName: true}
	if index != nil {
		indexed = map[string]bool{}
		for _, name := range index.shards() {
			indexed[name] = true
		}
	}
	var found []kernels.Finding
	for _, name := range present {
		if !indexed[name] {
			found = append(found, kernels.Finding{Check: CheckStrayShard, Where: name, Got: "a shard that the index does not name", Want: "indexed shards only",
				Hint: "a loader that takes model*.safetensors would load it: remove it or fetch the index that names it"})
		}
	}
	holder := map[string]string{} // tensor → shard
	opened := map[string]bool{}
	for _, shard := range shards {
		opened[shard.Name] = true
		for _, t := range shard.File.Tensors {
			if first, dup := holder[t.Name]; dup {
				found = append(found, kernels.Finding{Check: CheckTwoShards, Where: t.Name, Got: fmt.Sprintf("in %s and in %s", first, shard.Name), Want: "in one shard"})
				continue
			}
			holder[t.Name] = shard.Name
			if index == nil {
				continue
			}
			switch want, ok := index.WeightMap[t.Name]; {
			case !ok:
				found = append(found, kernels.Finding{Check: CheckUnindexed, Where: t.Name, Got: "in " + shard.Name, Want: "a tensor that the index names"})
			case want != shard.Name:
				found = append(found, kernels.Finding{Check: CheckWrongShard, Where: t.Name, Got: "in " + shard.Name, Want: "in " + want})
			}
		}
	}
	if index == nil {
		return found
	}
	names := make([]string, 0, len(index.WeightMap))
	for name := range index.WeightMap {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if want := index.WeightMap[name]; holder[name] == "" && opened[want] {
			found = append(found, kernels.Finding{Check: CheckMissingTensor, Where: name, Got: "no such tensor in " + want, Want: "the tensor that the index names"})
		}
	}
	return found
}
