// Command torchwood reads with filippo.io/torchwood what weighmaster writes. It
// is a module of its own because torchwood's requirements are not weighmaster's.
//
//	torchwood tiles FOLDER LOGKEY           checks the checkpoint, every entry and every inclusion proof
//	torchwood cosignatures FILE WITNESSKEY  checks one witness's cosignature and prints its Unix time
//	torchwood proof FILE LEAFFILE LOGKEY    checks an inclusion proof
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "torchwood:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "tiles":
		return tiles(args[1], args[2])
	case len(args) == 3 && args[0] == "cosignatures":
		return cosignature(args[1], args[2])
	case len(args) == 4 && args[0] == "proof":
		return proof(args[1], args[2], args[3])
	}
	return errors.New("usage: torchwood tiles FOLDER LOGKEY | cosignatures FILE WITNESSKEY | proof FILE LEAFFILE LOGKEY")
}

func openCheckpoint(msg []byte, vkey string) (torchwood.Checkpoint, error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return torchwood.Checkpoint{}, err
	}
	n, err := note.Open(msg, note.VerifierList(v))
	if err != nil {
		return torchwood.Checkpoint{}, err
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	if err == nil && c.Origin != v.Name() {
		err = fmt.Errorf("origin %q, want %q", c.Origin, v.Name())
	}
	return c, err
}

func tiles(folder, vkey string) error {
	ctx := context.Background()
	reader, err := torchwood.NewTileFS(os.DirFS(folder))
	if err != nil {
		return err
	}
	msg, err := reader.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return err
	}
	c, err := openCheckpoint(msg, vkey)
	if err != nil {
		return err
	}
	client, err := torchwood.NewClient(reader)
	if err != nil {
		return err
	}
	count := int64(0)
	sum := sha256.New()
	for i, entry := range client.AllEntries(ctx, c.Tree, 0) {
		if i != count {
			return fmt.Errorf("entry %d, want %d", i, count)
		}
		count++
		sum.Write(entry)
		one, path, err := client.Entry(ctx, c.Tree, i)
		if err != nil {
			return err
		}
		if string(one) != string(entry) {
			return fmt.Errorf("entry %d has other bytes by its index", i)
		}
		if err := tlog.CheckRecord(path, c.N, c.Hash, i, tlog.RecordHash(entry)); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if err := client.Err(); err != nil {
		return err
	}
	if count != c.N {
		return fmt.Errorf("%d entries, want %d", count, c.N)
	}
	fmt.Printf("%d %x\n", count, sum.Sum(nil))
	return nil
}

func cosignature(file, vkey string) error {
	msg, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	v, err := torchwood.NewCosignatureVerifier(vkey)
	if err != nil {
		return err
	}
	n, err := note.Open(msg, note.VerifierList(v))
	if err != nil {
		return err
	}
	at, err := torchwood.CosignatureTimestamp(n.Sigs[0])
	if err != nil {
		return err
	}
	fmt.Println(n.Sigs[0].Name, at)
	return nil
}

// proof reads C2SP tlog-proof and checks it with torchwood's checkpoint parser
// and its proofs of tree nodes.
func proof(file, leafFile, vkey string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	leaf, err := os.ReadFile(leafFile)
	if err != nil {
		return err
	}
	head, msg, found := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		return errors.New("not a tlog-proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return err
	}
	var path torchwood.HashProof
	for _, line := range lines[2:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return err
		}
		path = append(path, h)
	}
	c, err := openCheckpoint([]byte(msg), vkey)
	if err != nil {
		return err
	}
	if err := torchwood.CheckHash(path, c.N, c.Hash, tlog.StoredHashIndex(0, index), tlog.RecordHash(leaf)); err != nil {
		return err
	}
	fmt.Println(index, c.N)
	return nil
}
