package attest

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// algorithm is one recognised algorithm of the in-toto DigestSet. A strong one
// names bytes on its own; a weak one is only believed beside a strong one.
type algorithm struct {
	hex    []int // allowed lengths, in hex digits
	strong bool
}

// recognised lists the algorithms of the in-toto DigestSet specification that
// have a fixed length. Git object ids are SHA-1, or SHA-256 in newer repositories.
var recognised = map[string]algorithm{
	"sha256":     {[]int{64}, true},
	"sha384":     {[]int{96}, true},
	"sha512":     {[]int{128}, true},
	"sha512_256": {[]int{64}, true},
	"sha3_256":   {[]int{64}, true},
	"sha3_384":   {[]int{96}, true},
	"sha3_512":   {[]int{128}, true},
	"sha224":     {[]int{56}, false},
	"sha512_224": {[]int{56}, false},
	"sha3_224":   {[]int{56}, false},
	"sha1":       {[]int{40}, false},
	"md5":        {[]int{32}, false},
	"gitBlob":    {[]int{40, 64}, false},
	"gitCommit":  {[]int{40, 64}, false},
	"gitTag":     {[]int{40, 64}, false},
	"gitTree":    {[]int{40, 64}, false},
}

// checkDigests holds a DigestSet to its form: every recognised digest is
// lower-case hex of its length.
func checkDigests(where string, set map[string]string) error {
	if len(set) > MaxDigests {
		return refuse(CheckSize, where, fmt.Sprintf("%d digests", len(set)), fmt.Sprintf("at most %d", MaxDigests))
	}
	for _, name := range sorted(set) {
		alg, ok := recognised[name]
		if ok && !wellFormed(set[name], alg.hex) {
			return refuse(CheckDigest, where+"/"+name, fmt.Sprintf("%.140q", set[name]), fmt.Sprintf("%v lower-case hex digits", alg.hex))
		}
	}
	return nil
}

// strength refuses a DigestSet that names no bytes for sure.
func strength(where string, set map[string]string) error {
	for name := range set {
		if recognised[name].strong {
			return nil
		}
	}
	const want = "at least one strong digest, e.g. sha256"
	if len(set) == 0 {
		return refuse(CheckDigest, where, "no digest", want)
	}
	return refuse(CheckDigest, where, "only "+strings.Join(sorted(set), ", "), want)
}

// AgreeDigests holds the digests that a Statement claims for a file against
// those measured on it: every recognised algorithm that both have must agree,
// and at least one of them must be strong. Digests are lower-case hex.
func AgreeDigests(where string, claimed, measured map[string]string) error {
	strong := false
	for _, name := range sorted(claimed) {
		got, ok := measured[name]
		alg, known := recognised[name]
		if !ok || !known {
			continue
		}
		if got != claimed[name] {
			return refuse(CheckDigest, where+"/"+name, got, claimed[name])
		}
		strong = strong || alg.strong
	}
	if !strong {
		return refuse(CheckDigest, where, "only "+strings.Join(sorted(measured), ", "), "a strong digest among the claimed "+strings.Join(sorted(claimed), ", "))
	}
	return nil
}

// BindSubjects holds a Statement's subjects against measured files, by name:
// every subject must be there with agreeing digests, and no file may be extra.
// A swapped name or a dropped file is an error, although each digest exists.
func BindSubjects(s *Statement, files map[string]map[string]string) error {
	claimed := map[string]bool{}
	for i, subject := range s.GetSubject() {
		where := "/subject/" + strconv.Itoa(i)
		name := subject.GetName()
		claimed[name] = true
		measured, ok := files[name]
		if !ok {
			return refuse(CheckSubject, where, fmt.Sprintf("no file %q", name), "every file that the Statement names")
		}
		if err := AgreeDigests(where+"/digest", subject.GetDigest(), measured); err != nil {
			return err
		}
	}
	for name := range files {
		if !claimed[name] {
			return refuse(CheckSubject, "/subject", fmt.Sprintf("the further file %q", name), "only files that the Statement names")
		}
	}
	return nil
}

// contradictions refuses subjects that share a strong digest, and so are the
// same bytes, but differ in another one.
func contradictions(s *Statement) error {
	first := map[string]int{}
	for i, subject := range s.GetSubject() {
		for _, name := range sorted(subject.GetDigest()) {
			if !recognised[name].strong {
				continue
			}
			key := name + ":" + subject.GetDigest()[name]
			earlier, ok := first[key]
			if !ok {
				first[key] = i
				continue
			}
			where := fmt.Sprintf("/subject/%d/digest", i)
			if err := AgreeDigests(where, s.GetSubject()[earlier].GetDigest(), subject.GetDigest()); err != nil {
				err.(*VerificationError).Hint = fmt.Sprintf("it contradicts /subject/%d, which has the same %s", earlier, name)
				return err
			}
		}
	}
	return nil
}

func wellFormed(digest string, lengths []int) bool {
	for _, n := range lengths {
		if len(digest) == n {
			return strings.Trim(digest, "0123456789abcdef") == ""
		}
	}
	return false
}

func sorted(set map[string]string) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
