package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/policy"
)

// cmdEvidence: evidence PROJECT CHANGE tampers with the first evidence object
// that a claim names: changed, cut, removed, emptied (the description stays),
// swapped (with the next one), described (as the next one is).
func cmdEvidence(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	p, err := (&app{project: ts.MkAbs(args[0])}).open(ctx, false)
	ts.Check(err)
	defer p.close()
	claims, err := p.allClaims(ctx)
	ts.Check(err)
	var paths []string
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		for _, d := range run.Evidence() {
			paths = append(paths, filepath.Join(p.dir, evidenceDir, "sha256", d.Encoded()[:2], d.Encoded()))
		}
	}
	one, next := paths[0], paths[1]
	if one == next {
		ts.Fatalf("the first two evidence objects are one")
	}
	body, err := os.ReadFile(one)
	ts.Check(err)
	write := func(body []byte) {
		ts.Check(os.Chmod(one, 0o644))
		ts.Check(os.WriteFile(one, body, 0o444))
	}
	switch args[1] {
	case "changed":
		body[len(body)/2] ^= 1
		write(body)
	case "cut":
		write(body[:len(body)-1])
	case "removed":
		ts.Check(errors.Join(os.Remove(one), os.Remove(one+".json")))
	case "emptied":
		ts.Check(os.Remove(one))
	case "swapped":
		aside := one + "-aside"
		ts.Check(errors.Join(os.Rename(one, aside), os.Rename(next, one), os.Rename(aside, next)))
		ts.Check(errors.Join(os.Rename(one+".json", aside), os.Rename(next+".json", one+".json"), os.Rename(aside, next+".json")))
	case "described":
		ts.Check(os.Rename(next+".json", one+".json"))
	default:
		ts.Fatalf("no change %q", args[1])
	}
}

// cmdCheckpoint: checkpoint PROJECT SIZE VARIABLE sets the variable to the path
// of the checkpoint of a tree size; newest, and newest-1 for the one before.
func cmdCheckpoint(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := checkpoints.Open(filepath.Join(ts.MkAbs(args[0]), checkDir))
	ts.Check(err)
	size, err := dir.Newest(context.Background())
	ts.Check(err)
	switch args[1] {
	case "newest":
	case "newest-1":
		before := int64(-1)
		for s, err := range dir.Sizes(context.Background()) {
			ts.Check(err)
			if s < size {
				before = s
			}
		}
		size = before
	default:
		size, err = strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
	}
	ts.Setenv(args[2], dir.File(size))
}
