// Package hubtest serves one snapshot as the Hub does: the listing of its one
// revision, the scan status of its files, and their bytes with redirects to a
// store for large files and with ranges. It listens on loopback, so that a
// complete acquisition needs no network. Faults make it misbehave.
package hubtest

import (
	"bytes"
	"crypto/sha1" // git blob ids are SHA-1
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"
)

// Snapshot is one revision of one repository.
type Snapshot struct {
	Repository string   // owner/name
	Revision   string   // 40 hex digits
	Licence    string   // as the card declares it; none when empty
	BaseModels []string // base_model of the card; none when empty, a plain name when there is one
	Files      []File
	Scans      map[string]string // scan state by path; the listing has no scan status when nil
}

// File is one file of a snapshot.
type File struct {
	Path string
	Data []byte
	LFS  bool
}

// FromPublisher reads a snapshot from its publisher.json and its folder.
func FromPublisher(publisher []byte, folder fs.FS) (Snapshot, error) {
	var p struct {
		Repository, Revision, License string
		Files                         []struct {
			Path string
			LFS  bool
		}
	}
	if err := json.Unmarshal(publisher, &p); err != nil {
		return Snapshot{}, fmt.Errorf("publisher.json: %w", err)
	}
	s := Snapshot{Repository: p.Repository, Revision: p.Revision, Licence: p.License}
	for _, f := range p.Files {
		data, err := fs.ReadFile(folder, f.Path)
		if err != nil {
			return Snapshot{}, err
		}
		s.Files = append(s.Files, File{Path: f.Path, Data: data, LFS: f.LFS})
	}
	return s, nil
}

// Pointer is the Git LFS pointer of data (git-lfs specification, version 1).
func Pointer(data []byte) []byte {
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256(data), len(data))
}

// BlobID is git's SHA-1 object id of data.
func BlobID(data []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Handler serves s, through the given faults: the first is the outermost.
func Handler(s Snapshot, faults ...Fault) http.Handler {
	mux := http.NewServeMux()
	api := "/api/models/" + s.Repository
	mux.HandleFunc("GET "+api+"/revision/{rev}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("rev") != s.Revision {
			fail(w, http.StatusNotFound, "Invalid rev id: "+r.PathValue("rev"))
			return
		}
		answer(w, s.listing(r.URL.Query().Get("blobs") == "true", r.URL.Query().Get("securityStatus") == "true"))
	})
	mux.HandleFunc("POST "+api+"/paths-info/{rev}", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Paths []string }
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&ask); err != nil {
			fail(w, http.StatusBadRequest, "paths are missing")
			return
		}
		answer(w, s.pathsInfo(ask.Paths))
	})
	mux.HandleFunc("GET /"+s.Repository+"/resolve/{rev}/{path...}", s.resolve)
	mux.HandleFunc("GET /store/{oid}", s.store)
	var h http.Handler = mux
	for i := len(faults) - 1; i >= 0; i-- {
		h = faults[i](h)
	}
	return h
}

func (s Snapshot) listing(blobs, security bool) map[string]any {
	siblings := []map[string]any{}
	for _, f := range s.Files {
		entry := map[string]any{"rfilename": f.Path}
		if blobs {
			entry["size"], entry["blobId"] = len(f.Data), BlobID(f.Data)
			if f.LFS {
				p := Pointer(f.Data)
				entry["blobId"] = BlobID(p)
				entry["lfs"] = map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(f.Data)), "size": len(f.Data), "pointerSize": len(p)}
			}
		}
		siblings = append(siblings, entry)
	}
	info := map[string]any{
		"id": s.Repository, "modelId": s.Repository, "sha": s.Revision, "private": false, "gated": false,
		"tags": []string{"safetensors"}, "siblings": siblings,
	}
	card := map[string]any{}
	if s.Licence != "" {
		card["license"] = s.Licence
	}
	switch len(s.BaseModels) {
	case 0:
	case 1:
		card["base_model"] = s.BaseModels[0]
	default:
		card["base_model"] = s.BaseModels
	}
	if len(card) > 0 {
		info["cardData"] = card
	}
	if security && s.Scans != nil {
		done, issues := true, []map[string]any{}
		for path, state := range s.Scans {
			switch state {
			case "queued", "unscanned":
				done = false
			case "caution", "suspicious", "unsafe":
				issues = append(issues, map[string]any{"path": path, "level": state})
			}
		}
		info["securityRepoStatus"] = map[string]any{"scansDone": done, "filesWithIssues": issues}
	}
	return info
}

func (s Snapshot) pathsInfo(paths []string) []map[string]any {
	list := []map[string]any{}
	for _, p := range paths {
		for _, f := range s.Files {
			if f.Path != p {
				continue
			}
			entry := map[string]any{"type": "file", "path": p, "oid": BlobID(f.Data), "size": len(f.Data)}
			if state, ok := s.Scans[p]; ok {
				entry["securityFileStatus"] = map[string]any{"status": state}
			}
			list = append(list, entry)
		}
	}
	return list
}

// resolve answers small files itself and redirects large ones to the store.
func (s Snapshot) resolve(w http.ResponseWriter, r *http.Request) {
	for _, f := range s.Files {
		if f.Path != r.PathValue("path") || r.PathValue("rev") != s.Revision {
			continue
		}
		w.Header().Set("X-Repo-Commit", s.Revision)
		if !f.LFS {
			w.Header().Set("ETag", `"`+BlobID(f.Data)+`"`)
			serve(w, r, f.Data)
			return
		}
		oid := fmt.Sprintf("%x", sha256.Sum256(f.Data))
		w.Header().Set("X-Linked-Etag", `"`+oid+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(f.Data)))
		http.Redirect(w, r, "/store/"+oid, http.StatusFound)
		return
	}
	fail(w, http.StatusNotFound, "Entry not found")
}

func (s Snapshot) store(w http.ResponseWriter, r *http.Request) {
	for _, f := range s.Files {
		if f.LFS && fmt.Sprintf("%x", sha256.Sum256(f.Data)) == r.PathValue("oid") {
			serve(w, r, f.Data)
			return
		}
	}
	fail(w, http.StatusNotFound, "Object not found")
}

func serve(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("X-Error-Message", strings.ReplaceAll(message, "\n", " "))
	w.WriteHeader(status)
}

// Server is a handler on a free loopback port.
type Server struct {
	URL  string // http://127.0.0.1:port
	http *http.Server
}

// Serve starts a server. Close stops it.
func Serve(h http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("loopback hub: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), http: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Close stops the server and its connections.
func (s *Server) Close() error { return s.http.Close() }
