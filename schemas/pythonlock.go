package schemas

import godigest "github.com/opencontainers/go-digest"

// PythonLockURI is the URI of the schema of [PythonLock].
const PythonLockURI = BaseURI + "schema/python-lock/v1"

// PythonLock says which packages a Python tool ran with. Each distribution is
// bound by its RECORD (Recording installed projects, packaging.python.org),
// which has the digest of every file; a run that states this lock found each of
// them so on disk. Schema: python-lock.v1.json.
type PythonLock struct {
	Schema          string               `json:"schema"`
	Python          string               `json:"python"`      // e.g. 3.11
	Interpreter     godigest.Digest      `json:"interpreter"` // of the program
	StandardLibrary PythonLibrary        `json:"standardLibrary"`
	Distributions   []PythonDistribution `json:"distributions"` // sorted by name
}

// PythonLibrary is the interpreter's own library: the digest of the manifest
// ("<sha256 hex>  <name>\n", sorted by name) of its files, those compiled to
// __pycache__ and installed packages left out. Size is in bytes.
type PythonLibrary struct {
	Files  int             `json:"files"`
	Size   int64           `json:"size"`
	Digest godigest.Digest `json:"digest"`
}

// PythonDistribution is one installed distribution. Size is in bytes.
type PythonDistribution struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Record  godigest.Digest `json:"record"` // of its RECORD
	Files   int             `json:"files"`  // that RECORD has a digest of
	Size    int64           `json:"size"`
}
