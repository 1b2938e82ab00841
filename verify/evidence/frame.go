package evidence

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// checkFrame holds every byte of the archive that is not a member's compressed
// data against what [Package.Write] writes around the same members: order,
// headers, dates, modes, descriptors and directory. Readers of ZIP archives
// disagree about what these mean, and a link or a device is no evidence.
func checkFrame(r io.ReaderAt, size int64, z *zip.Reader) error {
	m := &matcher{file: io.NewSectionReader(r, 0, size)}
	w := zip.NewWriter(m)
	before := ""
	for _, f := range z.File {
		if f.Name <= before {
			return &FormatError{f.Name, "a member behind " + before, "members in order of their names"}
		}
		before = f.Name
		if err := frameMember(w, f); err != nil {
			return frameError(f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return frameError("archive", err)
	}
	if m.at != size {
		return &FormatError{"archive", fmt.Sprintf("%d bytes", size), fmt.Sprintf("%d", m.at)}
	}
	return nil
}

// frameMember writes a member as Write does, with the data that is there.
func frameMember(w *zip.Writer, f *zip.File) error {
	const version, descriptorFollows = 20, 8
	to, err := w.CreateRaw(&zip.FileHeader{
		Name: f.Name, CreatorVersion: version, ReaderVersion: version, Flags: descriptorFollows, Method: zip.Deflate,
		CRC32: f.CRC32, CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
	})
	if err != nil {
		return err
	}
	data, err := f.OpenRaw()
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, data); err != nil {
		return err
	}
	return w.Flush()
}

func frameError(member string, err error) error {
	var other *otherByte
	if errors.As(err, &other) {
		return &FormatError{member, fmt.Sprintf("another byte in the archive's own structure, near byte %d", other.at), "the structure that Package.Write gives it: undated, deflated regular files"}
	}
	return &FormatError{member, err.Error(), "a readable archive"}
}

// matcher is a writer that wants what is written to be what a file holds.
type matcher struct {
	file *io.SectionReader
	at   int64
}

type otherByte struct{ at int64 }

func (e *otherByte) Error() string { return fmt.Sprintf("another byte near %d", e.at) }

func (m *matcher) Write(p []byte) (int, error) {
	got := make([]byte, len(p))
	if _, err := m.file.ReadAt(got, m.at); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.Equal(got, p) {
		return 0, &otherByte{m.at}
	}
	m.at += int64(len(p))
	return len(p), nil
}
