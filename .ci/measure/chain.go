package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// chain measures verify of a whole evidence package beside cosign on the same
// bundles, one by one: signature and subject only, which is what cosign checks.
func chain(ctx context.Context, binary, dir string, rounds int) error {
	cosign := os.Getenv("WEIGHMASTER_COSIGN")
	if cosign == "" {
		return fmt.Errorf("WEIGHMASTER_COSIGN does not name a cosign")
	}
	project := filepath.Join(dir, "chain")
	if err := os.RemoveAll(project); err != nil {
		return err
	}
	file, err := longChain(ctx, binary, project)
	if err != nil {
		return err
	}
	script, n, err := cosignScript(file, project, cosign)
	if err != nil {
		return err
	}
	ours := []string{binary, "verify", file, "--trust", filepath.Join(project, "trust.yaml")}
	fmt.Printf("%-44s %-34s %10s %10s %22s %10s\n", "contest", "beside", "ours (s)", "theirs (s)", "ratio (lowest, highest)", "ours (MiB)")
	c := contest{name: fmt.Sprintf("verify of a chain of %d claims", n), beside: fmt.Sprintf("cosign, %d times", n), ours: ours, theirs: []string{"sh", script}}
	if err := c.fight(ctx, rounds); err != nil {
		return err
	}
	if os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) != nil {
		fmt.Println("left out: the same with a cold page cache, which only root can have")
		return nil
	}
	c.name, c.cold = c.name+", cold", true
	return c.fight(ctx, rounds)
}

// longChain makes a demo project and runs one stage more, after which acceptance
// and completion are stated anew: over 25 claims for the 8-bit file.
func longChain(ctx context.Context, binary, project string) (string, error) {
	if err := command(ctx, binary, "demo", "--dir", project); err != nil {
		return "", err
	}
	file := filepath.Join(project, "delivered", "example-llama-2m-Q8_0.gguf")
	path := filepath.Join(project, "pipeline.yaml")
	body, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	body = append(body, "  - {name: inspected-again, uses: inspect, inputs: {snapshot: source}}\n"...)
	if err := os.WriteFile(path, body, 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"run", "--project", project}, {"export", file, "--project", project}} {
		if err := command(ctx, binary, args...); err != nil {
			return "", err
		}
	}
	return file, nil
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

func readPackage(file string) (*evidence.Package, error) {
	body, err := os.ReadFile(file + ".evidence.zip")
	if err != nil {
		return nil, err
	}
	return evidence.Read(bytes.NewReader(body), int64(len(body)))
}

// cosignScript writes the bundles of a file's package and a script that has cosign verify each.
func cosignScript(file, project, cosign string) (script string, bundles int, err error) {
	pkg, err := readPackage(file)
	if err != nil {
		return "", 0, err
	}
	lines := []byte("set -e\n")
	for i, bundle := range pkg.Bundles {
		path := filepath.Join(project, fmt.Sprintf("bundle-%02d.json", i))
		if err := os.WriteFile(path, bundle, 0o644); err != nil {
			return "", 0, err
		}
		env, err := attest.OpenUnverified(bundle)
		if err != nil {
			return "", 0, err
		}
		said, err := attest.Inspect(bundle)
		if err != nil {
			return "", 0, err
		}
		key, err := signer(env.Bundle.GetVerificationMaterial().GetPublicKey().GetHint(), project)
		if err != nil {
			return "", 0, err
		}
		subject := said.Statement.GetSubject()[0].GetDigest()["sha256"]
		lines = append(lines, fmt.Sprintf("%q verify-blob-attestation --insecure-ignore-tlog=true --key %q --bundle %q --type %q --digest %s --digestAlg sha256\n",
			cosign, key, path, said.Statement.GetPredicateType(), subject)...)
	}
	script = filepath.Join(project, "cosign.sh")
	return script, len(pkg.Bundles), os.WriteFile(script, lines, 0o644)
}

// signer finds the public key that a bundle's hint names.
func signer(hint, project string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(project, "keys", "*.pub"))
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		key, err := keys.LoadPublic(body)
		if err != nil {
			return "", err
		}
		found, err := sigstore.Hint(key)
		if err != nil {
			return "", err
		}
		if found == hint {
			return path, nil
		}
	}
	return "", fmt.Errorf("no key below %s has the hint %q", project, hint)
}
