// Package modelsigning signs and verifies models in the OpenSSF Model Signing
// format (OMS 1.0): a Sigstore bundle with an in-toto Statement that lists every
// file of a model with its digest.
//
// It is stricter than the format where the format lets something pass unseen:
// the exact set of files is required, empty ones included; no path is left out
// because the signer says so; symbolic links are never followed; names are
// plain and come once; there is at least one file; and the digest of the whole,
// which does not cover names, identifies nothing here.
package modelsigning

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
)

// PredicateType is the predicate of a model signature (OMS 1.0, section 5.1).
const PredicateType = "https://model_signing/signature/v1.0"

// deprecatedType is the predicate of model-signing 0.2, which said nothing of the files that it leaves out.
const deprecatedType = "https://model_signing/Digests/v0.1"

// MaxResources bounds the files, or shards of files, of one model.
const MaxResources = 1_000_000

// Serialization methods (section 6.3).
const (
	Files  = "files"  // one resource a file
	Shards = "shards" // one resource for each part of a file
)

// Resource is one file, or one shard of a file, by name and content. The name
// of a shard is <path>:<start>:<end>, in bytes from 0, end exclusive. The name
// "." stands for the file itself where the model is one file.
type Resource struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"` // sha256
}

// Manifest is what a model signature says.
type Manifest struct {
	Name      string          // of the model; informative
	Root      godigest.Digest // sha256 over the resources' digests in order; it does not cover names
	Method    string          // Files or Shards
	ShardSize int64           // bytes; 0 for Files
	Ignored   []string        // paths that the signer left out; nobody is bound by that
	Resources []Resource      // in the order of the Statement
}

// readManifest reads the predicate of a verified Statement. Keys are exact and
// every value is of its type; keys that OMS does not know are ignored, as it demands.
func readManifest(s *attest.Statement, predicate json.RawMessage) (Manifest, error) {
	var m Manifest
	if t := s.GetPredicateType(); t != PredicateType {
		hint := ""
		if t == deprecatedType {
			hint = "it is of model-signing 0.2; let the signer sign again with 1.0 or later"
		}
		return m, &attest.VerificationError{Check: attest.CheckPredicate, Where: "/predicateType", Got: fmt.Sprintf("%.200q", t), Want: fmt.Sprintf("%q", PredicateType), Hint: hint}
	}
	if n := len(s.GetSubject()); n != 1 {
		return m, refuse(attest.CheckSubject, "/subject", fmt.Sprintf("%d subjects", n), "one, the model")
	}
	m.Name = s.GetSubject()[0].GetName()
	m.Root = godigest.NewDigestFromEncoded(godigest.SHA256, s.GetSubject()[0].GetDigest()["sha256"])
	top, err := object("/predicate", predicate)
	if err != nil {
		return m, err
	}
	var list []json.RawMessage
	var serialization json.RawMessage
	if err := top.fields(required("resources", &list), required("serialization", &serialization)); err != nil {
		return m, err
	}
	algorithm, err := m.readSerialization(serialization)
	if err != nil {
		return m, err
	}
	if len(list) == 0 {
		return m, refuse(attest.CheckPredicate, "/predicate/resources", "none", "at least one; nothing was signed")
	}
	return m, m.readResources(list, algorithm)
}

func (m *Manifest) readSerialization(doc json.RawMessage) (algorithm string, err error) {
	const at = "/predicate/serialization"
	o, err := object(at, doc)
	if err != nil {
		return "", err
	}
	var symlinks bool
	var size *int64
	if err := o.fields(required("method", &m.Method), required("hash_type", &algorithm), required("allow_symlinks", &symlinks),
		optional("shard_size", &size), optional("ignore_paths", &m.Ignored)); err != nil {
		return "", err
	}
	if algorithm != "sha256" {
		return "", refuse(attest.CheckDigest, at+"/hash_type", fmt.Sprintf("%.100q", algorithm), `"sha256"`)
	}
	switch {
	case m.Method == Files && size == nil:
	case m.Method == Shards && size != nil && *size > 0:
		m.ShardSize = *size
	case m.Method == Files || m.Method == Shards:
		return "", refuse(attest.CheckPredicate, at+"/shard_size", "another value", "a positive number of bytes for shards, none for files")
	default:
		return "", refuse(attest.CheckPredicate, at+"/method", fmt.Sprintf("%.100q", m.Method), `"files" or "shards"`)
	}
	return algorithm, nil
}

func (m *Manifest) readResources(list []json.RawMessage, algorithm string) error {
	seen := map[string]bool{}
	root := sha256.New()
	for i, doc := range list {
		at := "/predicate/resources/" + strconv.Itoa(i)
		o, err := object(at, doc)
		if err != nil {
			return err
		}
		var r Resource
		var value, used string
		if err := o.fields(required("name", &r.Name), required("digest", &value), required("algorithm", &used)); err != nil {
			return err
		}
		if used != algorithm && (m.Method != Shards || used != shardAlgorithm(algorithm, m.ShardSize)) {
			return refuse(attest.CheckDigest, at+"/algorithm", fmt.Sprintf("%.100q", used), fmt.Sprintf("%q as in hash_type", algorithm))
		}
		if r.Digest = godigest.NewDigestFromEncoded(godigest.SHA256, value); r.Digest.Validate() != nil {
			return refuse(attest.CheckDigest, at+"/digest", fmt.Sprintf("%.100q", value), "64 lower-case hexadecimal digits")
		}
		if err := m.checkName(r.Name, len(list)); err != nil {
			return refuse(attest.CheckSubject, at+"/name", fmt.Sprintf("%.200q", r.Name), err.Error())
		}
		if seen[r.Name] {
			return refuse(attest.CheckSubject, at+"/name", fmt.Sprintf("%.200q twice", r.Name), "each file once")
		}
		seen[r.Name] = true
		sum, _ := hex.DecodeString(value) // Validate has seen it
		root.Write(sum)
		m.Resources = append(m.Resources, r)
	}
	if got := godigest.NewDigest(godigest.SHA256, root); got != m.Root {
		return refuse(attest.CheckDigest, "/subject/0/digest/sha256", m.Root.String(), got.String()+" over the resources")
	}
	return nil
}

func (m *Manifest) checkName(name string, count int) error {
	if name == "." && count == 1 && m.Method == Files {
		return nil
	}
	if m.Method == Shards {
		p, start, end, ok := splitShard(name)
		if !ok || start < 0 || end < start || start%m.ShardSize != 0 || end-start > m.ShardSize {
			return fmt.Errorf("<path>:<start>:<end> with a shard of at most %d bytes", m.ShardSize)
		}
		name = p
	}
	return checkName(name)
}

// checkName wants a plain relative path with slashes (section 6.1.2).
func checkName(name string) error {
	drive := len(name) > 1 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z'
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || drive || len(name) > attest.MaxNameBytes {
		return fmt.Errorf(`a plain relative path: with slashes, without ".", ".." and empty elements`)
	}
	return nil
}

// splitShard takes the last two parts of a shard's name, since a path may hold colons.
func splitShard(name string) (p string, start, end int64, ok bool) {
	rest, last, ok1 := cutLast(name)
	p, first, ok2 := cutLast(rest)
	if !ok1 || !ok2 {
		return "", 0, 0, false
	}
	start, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	return p, start, end, err1 == nil && err2 == nil && shardName(p, start, end) == name
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// shardAlgorithm is what model-signing names the digest of a shard; section
// 6.3.2 has the plain name, which its verifier refuses.
func shardAlgorithm(algorithm string, size int64) string {
	return fmt.Sprintf("%s-sharded-%d", algorithm, size)
}

func shardName(p string, start, end int64) string { return fmt.Sprintf("%s:%d:%d", p, start, end) }

func refuse(check attest.Check, where, got, want string) error {
	return &attest.VerificationError{Check: check, Where: where, Got: got, Want: want}
}
