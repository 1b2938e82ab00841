package gguf

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Keys of a split file. Parts are numbered from 0 in split.no and from 1 in file names.
const (
	keySplitNo      = "split.no"
	keySplits       = "split.count"
	keySplitTensors = "split.tensors.count"
)

// SplitError is the refusal of files that are not the parts of one model.
type SplitError struct {
	Part string // the file that it is about, may be empty
	Got  string
	Want string
	Next string // what to do next, may be empty
}

func (e *SplitError) Error() string {
	s := "gguf: split file: "
	if e.Part != "" {
		s += e.Part + ": "
	}
	s += fmt.Sprintf("got %s, want %s", e.Got, e.Want)
	if e.Next != "" {
		s += "; " + e.Next
	}
	return s
}

// partError is the refusal of one part by itself.
type partError struct {
	part string
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }

func (e *partError) Unwrap() error { return e.err }

// partName is what llama.cpp appends to the name of a part.
var partName = regexp.MustCompile(`^(.*)-(\d{5,})-of-(\d{5,})\.gguf$`)

// parsePart reads the number (from 1) and the count of a part's name.
func parsePart(name string) (prefix string, no, count int, ok bool) {
	m := partName.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	no, err := strconv.Atoi(m[2])
	if err != nil {
		return "", 0, 0, false
	}
	if count, err = strconv.Atoi(m[3]); err != nil {
		return "", 0, 0, false
	}
	return m[1], no, count, no >= 1 && no <= count && count <= MaxParts && name == nameOf(m[1], no, count)
}

func nameOf(prefix string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no, count)
}

// PartNames lists the names of all parts of a split model, in order, from the
// name of any one (with or without a folder): "m-00002-of-00003.gguf" gives three
// names. It gives nil for a name that is not a part's.
func PartNames(name string) []string {
	prefix, _, count, ok := parsePart(name)
	if !ok {
		return nil
	}
	names := make([]string, count)
	for i := range names {
		names[i] = nameOf(prefix, i+1, count)
	}
	return names
}

// OpenSplit opens the parts of a split model, in any order, as one [File]: the
// keys of the first part without those about splitting, and the tensors of
// all parts in the order of parts. One part that was not split is opened as
// [Open] does.
//
// Every part has to be whole by itself, all have to be there, and together
// they have to hold as many tensors as each of them says, none twice. Parts that
// differ in a key, in version, byte order or in what they say about the split
// are refused. Parts after the first need not say which model they are of, so
// parts of two models with the same names, shapes and counts pass unseen.
//
// Errors are [*SplitError], or those of Open after the part's name.
func OpenSplit(parts []Part) (*File, error) {
	if len(parts) == 0 {
		return nil, &SplitError{Got: "no part", Want: "the parts of a model"}
	}
	files := make([]*File, len(parts))
	for i, p := range parts {
		f, err := open(p, false)
		if err != nil {
			return nil, &partError{p.label(i), err}
		}
		files[i] = f
	}
	if len(files) == 1 {
		if _, count, err := files[0].splitNumbers(); err == nil && count <= 1 { // never split, or into one part, or merged again
			return files[0], nil
		}
	}
	if err := sortParts(files); err != nil {
		return nil, err
	}
	return join(files)
}

func (p Part) label(i int) string {
	if p.Name == "" {
		return fmt.Sprintf("part %d", i+1)
	}
	return path.Base(p.Name)
}

// sortParts puts the parts in order and refuses missing, doubled and alien ones.
func sortParts(files []*File) error {
	byNo := map[uint64]*File{}
	count := uint64(0)
	for i, f := range files {
		label := f.Parts[0].label(i)
		no, n, err := f.splitNumbers()
		if err != nil {
			return &partError{label, err}
		}
		if n == 0 {
			return &SplitError{Part: label, Got: "a file without split.count, or of one that was merged", Want: "a part of a split model"}
		}
		if count == 0 {
			count = n
		}
		if n != count {
			return &SplitError{Part: label, Got: fmt.Sprintf("a part of %d", n), Want: fmt.Sprintf("a part of %d, as %s says", count, files[0].Parts[0].label(0)), Next: "these are parts of different models"}
		}
		if first, dup := byNo[no]; dup {
			return &SplitError{Part: label, Got: fmt.Sprintf("part %d a second time, after %s", no+1, first.Parts[0].label(0)), Want: "each part once"}
		}
		if _, named, of, ok := parsePart(f.Parts[0].Name); ok && (uint64(named) != no+1 || uint64(of) != n) {
			return &SplitError{Part: label, Got: fmt.Sprintf("part %d of %d by its keys", no+1, n), Want: fmt.Sprintf("part %d of %d by its name", named, of), Next: "a file was renamed, or belongs to another model"}
		}
		byNo[no] = f
	}
	if err := missingParts(byNo, count); err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b *File) int { return int(a.splitNo) - int(b.splitNo) })
	return nil
}

// missingParts names the parts that are not there.
func missingParts(byNo map[uint64]*File, count uint64) error {
	if uint64(len(byNo)) == count {
		return nil
	}
	prefix := ""
	for _, f := range byNo {
		if p, _, _, ok := parsePart(path.Base(f.Parts[0].Name)); ok {
			prefix = p
		}
	}
	var missing []string
	for no := range count {
		if byNo[no] != nil {
			continue
		}
		if len(missing) == maxNamed {
			missing = append(missing, fmt.Sprintf("and %d more", count-uint64(len(byNo))-maxNamed))
			break
		}
		name := fmt.Sprintf("part %d", no+1)
		if prefix != "" {
			name += " (" + nameOf(prefix, int(no)+1, int(count)) + ")"
		}
		missing = append(missing, name)
	}
	return &SplitError{Got: fmt.Sprintf("%d of %d parts; missing: %s", len(byNo), count, strings.Join(missing, ", ")), Want: "all parts", Next: "fetch the missing part into the same folder"}
}

// splitNumbers reads split.no and split.count; a count of 0 means not split. A
// merged file keeps the keys with a count of 0.
func (f *File) splitNumbers() (no, count uint64, err error) {
	bad := func(key string, v Value, want string) error {
		return &FormatError{What: fmt.Sprintf("key %q", key), Got: v.Type.String() + " " + v.String(), Want: want}
	}
	v, ok := f.KV(keySplits)
	if !ok {
		return 0, 0, nil
	}
	if count, ok = v.Uint(); !ok || count > MaxParts {
		return 0, 0, bad(keySplits, v, fmt.Sprintf("an integer from 0 to %d", MaxParts))
	}
	if count == 0 {
		return 0, 0, nil
	}
	v, ok = f.KV(keySplitNo)
	if !ok && count == 1 {
		return 0, 1, nil
	}
	if no, ok = v.Uint(); !ok || no >= count {
		return 0, 0, bad(keySplitNo, v, fmt.Sprintf("an integer below %d", count))
	}
	f.splitNo = no
	return no, count, nil
}

// join makes one file of parts in order.
func join(files []*File) (*File, error) {
	first := files[0]
	all := &File{Version: first.Version, Order: first.Order, Alignment: first.Alignment, DataOffset: first.DataOffset, kvs: map[string]int{}, tensors: map[string]int{}, notes: &notes{}}
	for _, kv := range first.KVs {
		if kv.Key == keySplitNo || kv.Key == keySplits || kv.Key == keySplitTensors {
			continue
		}
		all.kvs[kv.Key] = len(all.KVs)
		all.KVs = append(all.KVs, kv)
	}
	for i, f := range files {
		part := f.Parts[0]
		label := part.label(i)
		if err := first.sameModel(f, label); err != nil {
			return nil, err
		}
		for _, w := range f.Warnings {
			all.Warnings = append(all.Warnings, label+": "+w)
		}
		for _, t := range f.Tensors {
			if at, dup := all.tensors[t.Name]; dup {
				return nil, &SplitError{Part: label, Got: fmt.Sprintf("tensor %q a second time, after %s", t.Name, all.Parts[all.Tensors[at].Part].label(all.Tensors[at].Part)), Want: "each tensor once"}
			}
			t.Part = i
			all.tensors[t.Name] = len(all.Tensors)
			all.Tensors = append(all.Tensors, t)
		}
		for _, q := range f.notes.found {
			_ = all.notes.note(q, nil) // read here
		}
		all.Parts = append(all.Parts, part)
		all.headers = append(all.headers, f.DataOffset)
		all.Size += f.Size
	}
	if err := all.checkTotal(files); err != nil {
		return nil, err
	}
	return all, nil
}

// sameModel compares what a later part says with the first one.
func (f *File) sameModel(g *File, label string) error {
	const other = "these are parts of different models, or of two ways to split one"
	if f.Version != g.Version || f.Order != g.Order {
		return &SplitError{Part: label, Got: fmt.Sprintf("version %d, %s", g.Version, g.Order), Want: fmt.Sprintf("version %d, %s, as in the first part", f.Version, f.Order), Next: other}
	}
	for _, kv := range g.KVs {
		if v, ok := f.KV(kv.Key); kv.Key != keySplitNo && kv.Key != keyAlignment && ok && !v.Equal(kv.Value) {
			return &SplitError{Part: label, Got: fmt.Sprintf("%s = %s", kv.Key, kv.Value), Want: fmt.Sprintf("%s, as in the first part", v), Next: other}
		} else if !ok && kv.Key == "general.architecture" {
			return &SplitError{Part: label, Got: fmt.Sprintf("%s = %s", kv.Key, kv.Value), Want: "no architecture, as in the first part", Next: other}
		}
	}
	return nil
}

// checkTotal compares split.tensors.count of every part with what all hold.
func (f *File) checkTotal(files []*File) error {
	for i, g := range files {
		v, ok := g.KV(keySplitTensors)
		if n, whole := v.Uint(); !ok || !whole || n != uint64(len(f.Tensors)) {
			got := "no " + keySplitTensors
			if ok {
				got = keySplitTensors + " = " + v.String()
			}
			return &SplitError{Part: g.Parts[0].label(i), Got: got, Want: fmt.Sprintf("%d, the tensors of all parts", len(f.Tensors)), Next: "a part of another model is among them, or one was made again"}
		}
	}
	return nil
}
