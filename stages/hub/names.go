package hub

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckName refuses a publisher's file name that must not become a path here:
// absolute or climbing names, backslashes, control characters, names that an
// operating system reserves, and the suffixes that we keep for unfinished and refused files.
func CheckName(name string) error {
	bad := func(why string) error {
		shown := name[:min(len(name), 80)]
		return fmt.Errorf("publisher's file name %q: %s; a name is never trusted as a path", shown, why)
	}
	switch {
	case len(name) > maxNameBytes:
		return bad(fmt.Sprintf("%d bytes, at most %d are taken", len(name), maxNameBytes))
	case !utf8.ValidString(name):
		return bad("not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return bad("control characters")
	case strings.ContainsAny(name, `\:`):
		return bad("a backslash or a colon")
	case name == "." || !fs.ValidPath(name):
		return bad("not a relative path of plain elements")
	}
	for elem := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(strings.ToLower(elem), ".")
		switch {
		case strings.HasSuffix(elem, " ") || strings.HasSuffix(elem, "."):
			return bad("an element ends in a space or a dot")
		case reserved[strings.TrimRight(stem, " ")] || strings.EqualFold(elem, ".git"):
			return bad("a reserved name")
		case strings.HasSuffix(elem, ".partial") || strings.Contains(elem, ".quarantined-"):
			return bad("a suffix kept for unfinished or refused files")
		}
	}
	return nil
}

// reserved are the device names of Windows: a file of that name cannot exist there.
var reserved = func() map[string]bool {
	m := map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}
	for _, d := range "0123456789¹²³" {
		m["com"+string(d)], m["lpt"+string(d)] = true, true
	}
	return m
}()
