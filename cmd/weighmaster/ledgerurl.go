package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
)

// ledgerVariable names the ledger where --ledger does not.
const ledgerVariable = "WEIGHMASTER_LEDGER"

// ledgerURL returns the URL of a ledger outside the project folder, empty for
// the project's own ledger.db.
func (a *app) ledgerURL() (string, error) {
	if a.ownLedger {
		return "", nil
	}
	url, from := a.ledger, "--ledger"
	if url == "" {
		url, from = os.Getenv(ledgerVariable), ledgerVariable
	}
	if url == "" {
		return "", nil
	}
	// The URL itself is not repeated: it may hold a password.
	if scheme, _, ok := strings.Cut(url, "://"); !ok || scheme != "postgres" && scheme != "postgresql" {
		return "", usage("%s: want a URL postgres://user@host:port/database?schema=name, or nothing for the project's own %s", from, ledgerFile)
	}
	return url, nil
}

// openStore opens the store of the project in a folder. It never creates one.
func (a *app) openStore(ctx context.Context, dir string) (ledger.Store, error) {
	url, err := a.ledgerURL()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ledgerFile)
	if url == "" {
		s, err := sqlite.Open(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; a ledger in PostgreSQL is named with --ledger or %s", err, ledgerVariable)
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	if exists(path) {
		return nil, usage("the project keeps its ledger in %s and another one is named: leave --ledger and %s away", path, ledgerVariable)
	}
	s, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// checkVacant says before anything is made whether createStore could work.
func (a *app) checkVacant(ctx context.Context) error {
	url, err := a.ledgerURL()
	if err != nil || url == "" {
		return err
	}
	return postgres.Vacant(ctx, url)
}

// createStore makes the store of a new project.
func (a *app) createStore(ctx context.Context, dir string) (ledger.Store, error) {
	url, err := a.ledgerURL()
	if err != nil {
		return nil, err
	}
	if url == "" {
		s, err := sqlite.Create(ctx, filepath.Join(dir, ledgerFile))
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := postgres.Create(ctx, url)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// isProject says whether a folder is a project: it has a pipeline and its
// ledger, or the checkpoints of a ledger that lies elsewhere.
func isProject(dir string) bool {
	return exists(filepath.Join(dir, pipelineFile)) && (exists(filepath.Join(dir, ledgerFile)) || exists(filepath.Join(dir, checkDir)))
}
