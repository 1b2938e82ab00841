package modelsigning_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
)

var model = map[string]string{"config.json": "{}", "weights/a.bin": "aaaa", "weights/b.bin": "bbbbbbbbbb", "added_tokens.json": "", "weights-c": "c", ".hidden": "h"}

func TestSignAndVerify(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384} {
		for _, shardSize := range []int64{0, 4} {
			key := newKey(t, algorithm)
			m := scan(t, folder(t, model), shardSize)
			bundle, err := modelsigning.Sign(context.Background(), key, m, modelsigning.GitPaths())
			if err != nil {
				t.Fatal(algorithm, err)
			}
			s, err := verify(t, key, bundle)
			if err != nil {
				t.Fatal(algorithm, err)
			}
			if s.Functionary != "producer" || s.Manifest.Name != "m" || s.Manifest.ShardSize != shardSize {
				t.Errorf("got %+v", s)
			}
			if d := s.Manifest.Compare(m); len(d) > 0 {
				t.Errorf("the model differs from its own signature: %+v", d)
			}
			_, err = verify(t, newKey(t, algorithm), bundle)
			wantCheck(t, err, attest.CheckFunctionary, "a key that the trust file names")
		}
	}
}

func TestOneFile(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	dir := folder(t, map[string]string{"a.gguf": "weights", "other.gguf": "weights"})
	m := scan(t, filepath.Join(dir, "a.gguf"), 0)
	bundle, err := modelsigning.Sign(context.Background(), key, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := verify(t, key, bundle)
	if err != nil || len(s.Manifest.Compare(m)) != 0 {
		t.Fatal(s, err)
	}
	// Section 6.1.2 lists the file by its name, which then binds.
	named, err := verify(t, key, signRaw(t, key, statement(plain, resource{"a.gguf", "weights"})))
	if err != nil || len(named.Manifest.Compare(m)) != 0 {
		t.Error(named, err)
	}
	if d := named.Manifest.Compare(scan(t, filepath.Join(dir, "other.gguf"), 0)); len(d) != 2 {
		t.Errorf("a file of another name gave %+v", d)
	}
	if d := s.Manifest.Compare(scan(t, folder(t, map[string]string{"a.gguf": "weights"}), 0)); len(d) != 2 {
		t.Errorf("a folder gave %+v against the signature of one file", d)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.gguf"), []byte("Weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := s.Manifest.Compare(scan(t, filepath.Join(dir, "a.gguf"), 0)); len(d) != 1 || d[0].Check != modelsigning.CheckBytes {
		t.Errorf("a changed file gave %+v", d)
	}
}

// TestModelIsNotTheSignedOne changes the folder after it was signed.
func TestModelIsNotTheSignedOne(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	for _, shardSize := range []int64{0, 4} {
		bundle, err := modelsigning.Sign(context.Background(), key, scan(t, folder(t, model), shardSize), nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := verify(t, key, bundle)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(map[string]string)
			checks string
		}{
			"nothing":                {func(map[string]string) {}, ""},
			"a byte":                 {func(m map[string]string) { m["weights/a.bin"] = "aaab" }, "bytes differ"},
			"an empty file dropped":  {func(m map[string]string) { delete(m, "added_tokens.json") }, "file is missing"},
			"an empty file added":    {func(m map[string]string) { m["new/__init__.py"] = "" }, "file is not signed"},
			"an empty file filled":   {func(m map[string]string) { m["added_tokens.json"] = "{}" }, "file is missing,file is not signed;bytes differ"},
			"names swapped":          {func(m map[string]string) { m["config.json"], m["weights-c"] = m["weights-c"], m["config.json"] }, "bytes differ;file is missing,file is not signed"},
			"a file dropped":         {func(m map[string]string) { delete(m, "weights-c") }, "file is missing"},
			"a git file added":       {func(m map[string]string) { m[".gitattributes"] = "* filter=evil" }, "file is not signed"},
			"a file in .git added":   {func(m map[string]string) { m[".git/hooks/post-checkout"] = "#!/bin/sh" }, "file is not signed"},
			"a file renamed":         {func(m map[string]string) { m["weights-d"] = m["weights-c"]; delete(m, "weights-c") }, "file is missing,file is not signed"},
			"a name in another case": {func(m map[string]string) { m["Config.json"] = m["config.json"]; delete(m, "config.json") }, "file is missing,file is not signed"},
		} {
			files := map[string]string{}
			for k, v := range model {
				files[k] = v
			}
			c.change(files)
			got := map[string]bool{}
			for _, d := range s.Manifest.Compare(scan(t, folder(t, files), shardSize)) {
				got[d.Check] = true
			}
			ok := false
			for _, alternative := range strings.Split(c.checks, ";") {
				want := strings.FieldsFunc(alternative, func(r rune) bool { return r == ',' })
				all := len(want) == len(got)
				for _, w := range want {
					all = all && got[w]
				}
				ok = ok || all
			}
			if !ok {
				t.Errorf("%s, shards of %d: got %v, want %q", name, shardSize, got, c.checks)
			}
		}
	}
}

// TestRootDoesNotNameFiles: two models with one subject digest are told apart.
func TestRootDoesNotNameFiles(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	one, err := verify(t, key, signRaw(t, key, statement(plain, resource{"a", "x"}, resource{"b", "y"})))
	if err != nil {
		t.Fatal(err)
	}
	two, err := verify(t, key, signRaw(t, key, statement(plain, resource{"b", "x"}, resource{"c", "y"})))
	if err != nil {
		t.Fatal(err)
	}
	if one.Manifest.Root != two.Manifest.Root {
		t.Fatal("the root digest covers names; this test no longer tests anything")
	}
	m := scan(t, folder(t, map[string]string{"b": "x", "c": "y"}), 0)
	if d := one.Manifest.Compare(m); len(d) == 0 {
		t.Error("a model passed under a signature with its root digest and other names")
	}
	if d := two.Manifest.Compare(m); len(d) != 0 {
		t.Errorf("the model differs from its own signature: %+v", d)
	}
}

func TestScanRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"leaving": outside, "relative leaving": "../../secret", "inside": "a", "folder": ".", "broken": "nowhere"} {
		dir := folder(t, map[string]string{"a": "a"})
		if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if _, err := modelsigning.Scan(context.Background(), dir, 0, nil); err == nil || !strings.Contains(err.Error(), "link: got a symbolic link") {
			t.Errorf("a %s link gave %v", name, err)
		}
		if m := scan(t, dir, 0, "link"); len(m.Resources) != 1 || len(m.Left) != 1 {
			t.Errorf("a link that the user left out gave %+v", m)
		}
	}
	if _, err := modelsigning.Scan(context.Background(), t.TempDir(), 0, nil); err == nil || !strings.Contains(err.Error(), "got no files") {
		t.Errorf("an empty folder gave %v", err)
	}
	if _, err := modelsigning.Scan(context.Background(), folder(t, map[string]string{".git/x": ""}), 0, []string{".git"}); err == nil || !strings.Contains(err.Error(), "got no files") {
		t.Errorf("a folder of which all is left out gave %v", err)
	}
	if _, err := modelsigning.Scan(context.Background(), folder(t, map[string]string{`a\b`: ""}), 0, nil); err == nil || !strings.Contains(err.Error(), "plain relative path") {
		t.Errorf("a backslash in a name gave %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := modelsigning.Scan(ctx, folder(t, model), 0, nil); err == nil {
		t.Error("an ended context gave no error")
	}
}

func TestSignRefuses(t *testing.T) {
	m := scan(t, folder(t, model), 0)
	if _, err := modelsigning.Sign(context.Background(), newKey(t, keys.Ed25519), m, nil); err == nil || !strings.Contains(err.Error(), "want an ECDSA key") {
		t.Errorf("an Ed25519 key gave %v", err)
	}
	for words, change := range map[string]func(*modelsigning.Model){
		"got no files": func(m *modelsigning.Model) { m.Resources = nil },
		"twice":        func(m *modelsigning.Model) { m.Resources = append(m.Resources, m.Resources[0]) },
		"plain": func(m *modelsigning.Model) {
			m.Resources = []modelsigning.Resource{{Name: "../x", Digest: m.Resources[0].Digest}}
		},
		"64 lower-case": func(m *modelsigning.Model) { m.Resources = []modelsigning.Resource{{Name: "x", Digest: "sha256:00"}} },
	} {
		bad := m
		bad.Resources = append([]modelsigning.Resource{}, m.Resources...)
		change(&bad)
		if _, err := modelsigning.Sign(context.Background(), newKey(t, keys.ECDSA), bad, nil); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want an error with %q", err, words)
		}
	}
}

// TestStatementsRefused signs what no careful signer signs.
func TestStatementsRefused(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	good := statement(plain, resource{"a", "x"}, resource{"b", "y"})
	if _, err := verify(t, key, signRaw(t, key, good)); err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the statement has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct {
		payload string
		check   attest.Check
		words   string
	}{
		"an absolute name":          {statement(plain, resource{"/etc/passwd", "x"}), attest.CheckSubject, "plain relative path"},
		"a name that leaves":        {statement(plain, resource{"../secret", "x"}), attest.CheckSubject, "plain relative path"},
		"a name that leaves inside": {statement(plain, resource{"a/../../secret", "x"}), attest.CheckSubject, "plain relative path"},
		"a name with a dot":         {statement(plain, resource{"./a", "x"}), attest.CheckSubject, "plain relative path"},
		"a name with two slashes":   {statement(plain, resource{"a//b", "x"}), attest.CheckSubject, "plain relative path"},
		"a name with a backslash":   {statement(plain, resource{`a\b`, "x"}), attest.CheckSubject, "plain relative path"},
		"a name with a drive":       {statement(plain, resource{"C:a", "x"}), attest.CheckSubject, "plain relative path"},
		"an empty name":             {statement(plain, resource{"", "x"}), attest.CheckSubject, "plain relative path"},
		"a dot beside another":      {statement(plain, resource{".", "x"}, resource{"a", "x"}), attest.CheckSubject, "plain relative path"},
		"a name twice":              {statement(plain, resource{"a", "x"}, resource{"a", "y"}), attest.CheckSubject, `"a" twice`},
		"no resources":              {statement(plain), attest.CheckPredicate, "nothing was signed"},
		"another root":              {edit(good[strings.Index(good, `"sha256":"`):][:14], `"sha256":"0000`), attest.CheckDigest, "over the resources"},
		"another algorithm":         {edit(`"algorithm":"sha256"`, `"algorithm":"md5"`), attest.CheckDigest, `"md5"`},
		"another hash type":         {edit(`"hash_type":"sha256"`, `"hash_type":"blake3"`), attest.CheckDigest, `"blake3"`},
		"another method":            {edit(`"method":"files"`, `"method":"tensors"`), attest.CheckPredicate, `"tensors"`},
		"shards without a size":     {edit(`"method":"files"`, `"method":"shards"`), attest.CheckPredicate, "positive number"},
		"a shard size of zero":      {edit(`"method":"files"`, `"method":"shards","shard_size":0`), attest.CheckPredicate, "positive number"},
		"files with a shard size":   {edit(`"method":"files"`, `"method":"files","shard_size":4`), attest.CheckPredicate, "positive number"},
		"a key in another case":     {edit(`"resources"`, `"Resources"`), attest.CheckPredicate, "/predicate/resources: got none"},
		"no serialization":          {edit(`"serialization"`, `"serialisation"`), attest.CheckPredicate, "/predicate/serialization"},
		"null for resources":        {`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"m","digest":{"sha256":"` + strings.Repeat("0", 64) + `"}}],"predicateType":"` + modelsigning.PredicateType + `","predicate":{"resources":null,"serialization":` + plain + `}}`, attest.CheckPredicate, "got null"},
		"a key twice":               {edit(`"method":"files"`, `"method":"files","method":"files"`), attest.CheckStatement, "twice"},
		"two subjects":              {edit(`"subject":[`, `"subject":[{"name":"n","digest":{"sha256":"`+strings.Repeat("0", 64)+`"}},`), attest.CheckSubject, "2 subjects"},
		"the predicate of 0.2":      {edit(modelsigning.PredicateType, "https://model_signing/Digests/v0.1"), attest.CheckPredicate, "model-signing 0.2"},
		"another predicate":         {edit(modelsigning.PredicateType, "https://example.org/other"), attest.CheckPredicate, "https://example.org/other"},
		"an old statement":          {edit("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"), attest.CheckType, "v0.1"},
		"a shard across":            {statement(`{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`, resource{"a:2:6", "xxxx"}), attest.CheckSubject, "<path>:<start>:<end>"},
		"a shard of the past":       {statement(`{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`, resource{"a:4:0", ""}), attest.CheckSubject, "<path>:<start>:<end>"},
		"a shard with a plus":       {statement(`{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`, resource{"a:+0:4", "xxxx"}), attest.CheckSubject, "<path>:<start>:<end>"},
		"a shard that leaves":       {statement(`{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`, resource{"../a:0:4", "xxxx"}), attest.CheckSubject, "plain relative path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify(t, key, signRaw(t, key, c.payload))
			wantCheck(t, err, c.check, c.words)
		})
	}
}

// TestBundlesRefused changes a good bundle without its signer.
func TestBundlesRefused(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	payload := statement(plain, resource{"a", "x"}, resource{"b", "y"})
	good := signRaw(t, key, payload)
	if _, err := verify(t, key, good); err != nil {
		t.Fatal(err)
	}
	swapped := statement(plain, resource{"b", "x"}, resource{"a", "y"}) // has the same root
	for name, c := range map[string]struct {
		old, new string
		check    attest.Check
	}{
		"names swapped in the payload": {base64.StdEncoding.EncodeToString([]byte(payload)), base64.StdEncoding.EncodeToString([]byte(swapped)), attest.CheckSignature},
		"another payload type":         {attest.PayloadType, "text/plain", attest.CheckPayloadType},
		"another media type":           {"bundle.v0.3", "bundle.v9.9", attest.CheckBundle},
		"no signature":                 {`"signatures":[{`, `"signatures":[],"x":[{`, attest.CheckBundle},
		"a key twice":                  {`"dsseEnvelope"`, `"dsseEnvelope":{},"dsseEnvelope"`, attest.CheckBundle},
		"another key's hint":           {hint(t, key.Public()), hint(t, newKey(t, keys.ECDSA).Public()), attest.CheckFunctionary},
		"not JSON":                     {"{", "", attest.CheckBundle},
	} {
		if !bytes.Contains(good, []byte(c.old)) {
			t.Fatalf("%s: the bundle has no %q", name, c.old)
		}
		_, err := verify(t, key, bytes.Replace(good, []byte(c.old), []byte(c.new), 1))
		t.Run(name, func(t *testing.T) { wantCheck(t, err, c.check, "") })
	}
	_, err := verify(t, key, bytes.Repeat([]byte(" "), attest.MaxBundleBytes+1))
	wantCheck(t, err, attest.CheckSize, "")
}

// TestWholeKeyInBundle is the form before model-signing 1.1 (section 11.2).
func TestWholeKeyInBundle(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	doc, err := keys.EncodePublic(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	old := func(pem []byte) []byte {
		return bytes.Replace(signRaw(t, key, statement(plain, resource{"a", "x"})), []byte(`"hint":"`+hint(t, key.Public())+`"`),
			[]byte(`"rawBytes":"`+base64.StdEncoding.EncodeToString(pem)+`","keyDetails":"PKIX_ECDSA_P256_SHA_256"`), 1)
	}
	if _, err := verify(t, key, old(doc)); err != nil {
		t.Error(err)
	}
	other, err := keys.EncodePublic(newKey(t, keys.ECDSA).Public())
	if err != nil {
		t.Fatal(err)
	}
	_, err = verify(t, key, old(other))
	wantCheck(t, err, attest.CheckFunctionary, "")
}
