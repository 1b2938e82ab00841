package modelsigning

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// GitPaths are left out of every model (OMS 1.0, section 6.2).
func GitPaths() []string { return []string{".git", ".gitattributes", ".github", ".gitignore"} }

// Sign signs a model with a local ECDSA key on P-256 or P-384, whose hash is the
// curve's (section 4.2). ignored are the paths that [Scan] was told to leave. The
// bundle is RFC 8785 JSON.
//
// A model of one file is listed as ".", as model-signing does, against section
// 6.1.2: its verifier takes nothing else.
func Sign(ctx context.Context, key crypto.Signer, model Model, ignored []string) ([]byte, error) {
	if _, ok := key.Public().(*ecdsa.PublicKey); !ok {
		return nil, fmt.Errorf("model signature: got a %T, want an ECDSA key: the format has no other", key.Public())
	}
	statement, err := newStatement(model, ignored)
	if err != nil {
		return nil, fmt.Errorf("model signature: %w", err)
	}
	signer, err := sigstore.NewSigner(key)
	if err != nil {
		return nil, fmt.Errorf("model signature: %w", err)
	}
	bundle, err := signer.Sign(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("model signature: %w", err)
	}
	hint, err := pemHint(key.Public())
	if err != nil {
		return nil, fmt.Errorf("model signature: %w", err)
	}
	return withHint(bundle, func(string) string { return hint })
}

func newStatement(model Model, ignored []string) (*attest.Statement, error) {
	if len(model.Resources) == 0 {
		return nil, errors.New("got no files, want at least one")
	}
	root := sha256.New()
	algorithm := "sha256"
	if model.ShardSize > 0 {
		algorithm = shardAlgorithm(algorithm, model.ShardSize)
	}
	resources := make([]any, len(model.Resources))
	for i, r := range model.Resources {
		if model.Single && model.ShardSize == 0 {
			r.Name = "."
		}
		sum, err := hex.DecodeString(r.Digest.Encoded())
		if err != nil {
			return nil, fmt.Errorf("%s: digest: %w", r.Name, err)
		}
		root.Write(sum)
		resources[i] = map[string]any{"name": r.Name, "algorithm": algorithm, "digest": r.Digest.Encoded()}
	}
	serialization := map[string]any{"method": Files, "hash_type": "sha256", "allow_symlinks": false}
	if model.ShardSize > 0 {
		serialization["method"], serialization["shard_size"] = Shards, model.ShardSize
	}
	if len(ignored) > 0 {
		var paths []any
		for _, p := range slices.Compact(slices.Sorted(slices.Values(ignored))) {
			paths = append(paths, p)
		}
		serialization["ignore_paths"] = paths
	}
	predicate, err := structpb.NewStruct(map[string]any{"resources": resources, "serialization": serialization})
	if err != nil {
		return nil, err
	}
	digest := godigest.NewDigest(godigest.SHA256, root)
	subject := &attest.ResourceDescriptor{Name: model.Name, Digest: map[string]string{"sha256": digest.Encoded()}}
	statement, err := attest.NewStatement([]*attest.ResourceDescriptor{subject}, PredicateType, predicate)
	if err != nil {
		return nil, err
	}
	// What our own reader would refuse is not signed.
	body, err := predicate.MarshalJSON()
	if err != nil {
		return nil, err
	}
	_, err = readManifest(statement, body)
	return statement, err
}

// pemHint names a public key as model-signing does: the sha256, in hex, of its
// PEM (PKIX), line break at the end included.
func pemHint(pub crypto.PublicKey) (string, error) {
	doc, err := keys.EncodePublic(pub)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}
