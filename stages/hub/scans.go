package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ScanStates are the states that the Hub gives a file, from good to bad. Only
// "safe" is a finished scan without an objection.
var ScanStates = []string{"safe", "queued", "unscanned", "error", "caution", "suspicious", "unsafe"}

func repoScans(top fields) (*RepoScans, error) {
	raw, ok := top["securityRepoStatus"]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	o, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("securityRepoStatus: %w", err)
	}
	s := &RepoScans{Issues: map[string]string{}}
	var issues []json.RawMessage
	if err := errors.Join(o.may("scansDone", &s.Done), o.may("filesWithIssues", &issues)); err != nil {
		return nil, fmt.Errorf("securityRepoStatus: %w", err)
	}
	for i, r := range issues {
		var path, level string
		issue, err := object(r)
		if err == nil {
			err = errors.Join(issue.need("path", &path), issue.may("level", &level))
		}
		if err != nil {
			return nil, fmt.Errorf("securityRepoStatus.filesWithIssues[%d]: %w", i, err)
		}
		s.Issues[path] = level
	}
	return s, nil
}

// FileScans returns the Hub's scan status of each path that it gives one for.
// An endpoint without this question (404, 405) gives none: absent, not safe.
func (c *Client) FileScans(ctx context.Context, repo, rev string, paths []string) (map[string]string, error) {
	if err := CheckPin(repo, rev); err != nil {
		return nil, err
	}
	what := "scan status of " + repo + " at " + rev
	owner, name, _ := strings.Cut(repo, "/")
	scans := map[string]string{}
	for len(paths) > 0 {
		batch := paths[:min(len(paths), pathsPerRequest)]
		paths = paths[len(batch):]
		ask, err := json.Marshal(map[string]any{"paths": batch, "expand": true})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		a, err := c.do(ctx, request{what: what, method: http.MethodPost, path: []string{"api", "models", owner, name, "paths-info", rev}, body: string(ask)})
		if err != nil {
			return nil, err
		}
		body, err := c.json(what, a)
		var status *StatusError
		if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed) {
			return scans, nil
		}
		if err == nil {
			err = readScans(body, scans)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return scans, nil
}

func readScans(body []byte, into map[string]string) error {
	var entries []json.RawMessage
	if err := json.Unmarshal(body, &entries); err != nil || len(entries) > maxFiles {
		return errors.New("want a JSON list of files")
	}
	for i, raw := range entries {
		entry, err := object(raw)
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		var path, state string
		if err := entry.need("path", &path); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		raw, ok := entry["securityFileStatus"]
		if !ok || string(raw) == "null" {
			continue
		}
		status, err := object(raw)
		if err == nil {
			err = status.may("status", &state)
		}
		if err != nil {
			return fmt.Errorf("[%d] %s: securityFileStatus: %w", i, path, err)
		}
		if state != "" {
			into[path] = state
		}
	}
	return nil
}
