package remote

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"
)

// How the other end's digest was computed.
const (
	ReadBack = "all bytes read back over SFTP and hashed here"
	byShell  = " at the other end, over ssh"
)

// hasher is a program at the other end; without one the bytes are read back.
type hasher struct{ program string }

// shells are programs that hash standard input with SHA-256.
var shells = []string{"sha256sum", "shasum -a 256"}

// findHasher asks the other end to hash nothing: what gives the digest of the
// empty string hashes. An account for SFTP alone runs no commands.
func (c *Conn) findHasher(ctx context.Context) error {
	if c.hasher != nil {
		return nil
	}
	for _, program := range shells {
		out, err := c.run(ctx, program+" </dev/null")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d, ok := digestLine(out); err == nil && ok && d == godigest.FromString("") {
			c.hasher = &hasher{program}
			return nil
		}
	}
	c.hasher = &hasher{}
	return nil
}

// Sum is the SHA-256 of the first n bytes of a file at the other end, and how
// it was computed. Fewer bytes are an error.
func (c *Conn) Sum(ctx context.Context, path string, n int64) (godigest.Digest, string, error) {
	if err := c.findHasher(ctx); err != nil {
		return "", "", err
	}
	if c.hasher.program != "" {
		d, err := c.shellSum(ctx, path, n)
		return d, c.hasher.program + byShell, err
	}
	f, err := c.sftp.Open(path)
	if err != nil {
		return "", "", c.failed(ctx, "open "+path, err)
	}
	defer f.Close()
	d := godigest.Canonical.Digester()
	if err := c.read(ctx, f, 0, n, &stopping{ctx: ctx, w: d.Hash()}); err != nil {
		return "", "", err
	}
	return d.Digest(), ReadBack, nil
}

// shellSum has the other end hash, and count what it hashes.
func (c *Conn) shellSum(ctx context.Context, path string, n int64) (godigest.Digest, error) {
	size := strconv.FormatInt(n, 10)
	out, err := c.run(ctx, "head -c "+size+" <"+quote(path)+" | "+c.hasher.program)
	if err != nil {
		return "", err
	}
	d, ok := digestLine(out)
	if !ok {
		return "", fmt.Errorf("%s: %s: %s answered %.200q, want 64 hexadecimal digits", c.at, path, c.hasher.program, out)
	}
	return d, nil
}

// digestLine reads "<64 hexadecimal digits>  -".
func digestLine(out []byte) (godigest.Digest, bool) {
	fields := strings.Fields(string(out))
	if len(fields) != 2 || fields[1] != "-" {
		return "", false
	}
	d := godigest.NewDigestFromEncoded(godigest.SHA256, fields[0])
	return d, d.Validate() == nil
}
