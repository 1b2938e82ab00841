package policy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
)

// fullPolicy is the example policy with every field and every rule in use.
func fullPolicy() string {
	text := strings.NewReplacer("@REPOSITORY@", policytest.Repository, "@REVISION@", policytest.Revision).Replace(fixtures.Policy)
	tools := "boxed: {methods: [bubblewrap], admitted: [gpu], attributes: [NETWORK_DENIED]}\n" +
		"built: {sources: [{commit: 0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b, patches: []}], environment: [unpinned]}\n" +
		"calibrated: {corpora: [{digest: \"sha256:" + strings.Repeat("0b", 32) + "\", licence: mit}]}\nparity: {cases: 330}\n" +
		"placed: {devices: [CPU], uses: [calibrate]}\nalone: {uses: [evaluate]}\nreleased: {compute: azure, state: PowerState/deallocated}\n"
	for _, uses := range []string{"patch", "build", "isolate", "parity", "release"} {
		text = strings.Replace(text, "signers:\n", "signers:\n  "+uses+": {functionaries: [producer], threshold: 1}\n", 1)
	}
	text = strings.Replace(text, "signers:\n", tools+"signers:\n", 1)
	text = strings.Replace(text, "gates, coverage, licence]", "gates, coverage, licence, boxed, built, calibrated, parity, placed, alone]", 1)
	text = strings.Replace(text, "signers:\n", "scans: {allowed: [safe]}\nreviewers: {functionaries: [second, stranger], threshold: 1}\n"+
		"fresh: {reload: 720h, acceptance: 720h, review: 720h, witnesses: 24h}\nwitnesses: {names: [w1, w2], threshold: 1}\nsigners:\n", 1)
	return strings.Replace(text, "notices, standing]", "notices, standing, scans, review, fresh, witnesses, released]", 1)
}

// oneClass leaves the 8-bit class alone: one is as good as four.
func oneClass(text string) string {
	before, rest, _ := strings.Cut(text, "  full-precision:\n")
	_, rest, _ = strings.Cut(rest, "  8-bit:\n")
	class, rest, _ := strings.Cut(rest, "  6-bit:\n")
	_, after, _ := strings.Cut(rest, "decisions:\n")
	return before + "  8-bit:\n" + class + "decisions:\n" + after
}

// free are names that a policy gives itself or that stand for things outside:
// any is as good as another, and what nothing answers to can only say no.
var free = regexp.MustCompile(`^(\s+(full-precision|8-bit|6-bit|4-bit)$|\s+name$|name$|kind$|language$|licences$|upstreams$|files$|functionaries$|names$|domain$|description$|origin$|repository$|revision$|commit$|patches$|devices$|admitted$|licence$)`)

// Every word of the policy that names something is replaced by one that names
// nothing, one at a time: each is an error at its line.
func TestAnUnknownNameIsAnErrorAtItsLine(t *testing.T) {
	text := oneClass(fullPolicy())
	if _, err := policy.Read("policy.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	word := regexp.MustCompile(`[A-Za-z][A-Za-z0-9_-]*( structure)?|"[<>=]="`)
	replaced := 0
	for i, line := range lines {
		body, _, _ := strings.Cut(line, "#")
		for _, at := range word.FindAllStringIndex(body, -1) {
			if !names(body, at) {
				continue
			}
			changed := slices.Clone(lines)
			changed[i] = line[:at[0]] + "nosuch" + line[at[1]:]
			_, err := policy.Read("policy.yaml", []byte(strings.Join(changed, "\n")))
			if err == nil {
				t.Errorf("line %d: %q is taken", i+1, changed[i])
				continue
			}
			replaced++
			if at := fmt.Sprintf("policy.yaml:%d: ", i+1); !strings.HasPrefix(err.Error(), at) && !missing(err) {
				t.Errorf("line %d: %q is refused elsewhere: %v", i+1, changed[i], err)
			}
		}
	}
	if replaced < 230 {
		t.Errorf("only %d names were replaced; the test looks at too little", replaced)
	}
	t.Logf("%d names replaced, each refused", replaced)
}

// names tells whether the word at a place of a line names something that must exist.
func names(line string, at []int) bool {
	if before := line[:at[0]]; strings.Count(before, `"`)%2 == 1 || strings.Contains(before, "://") || strings.HasPrefix(line[at[1]:], "://") {
		return false // in a quoted text or a URI
	}
	if at[0] > 0 && strings.ContainsAny(line[at[0]-1:at[0]], "0123456789.-/") {
		return false // the rest of a number, a licence, a path
	}
	if strings.HasPrefix(line[at[1]:], ":") {
		key := line[at[0]:at[1]]
		return !free.MatchString(strings.Repeat(" ", min(2, at[0]))+key) || key == "name" || !strings.HasPrefix(line, "  ")
	}
	key := keyOf(line, at[0])
	return key != "" && !free.MatchString(key)
}

// keyOf is the key whose value, or whose list's element, starts at a column.
func keyOf(line string, col int) string {
	before := line[:col]
	if open := strings.LastIndex(before, "["); open >= 0 && !strings.Contains(before[open:], "]") {
		before = before[:open]
	}
	m := regexp.MustCompile(`([A-Za-z][A-Za-z0-9_-]*): *$`).FindStringSubmatch(before)
	if m == nil {
		return ""
	}
	return m[1]
}

// missing tells whether an error says that something which the changed word no longer names is missing:
// that has no line of its own.
func missing(err error) bool {
	return strings.Contains(err.Error(), "is missing") || strings.Contains(err.Error(), "missing propert")
}
