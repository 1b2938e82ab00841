package bom

import "strings"

// spdxLicences are SPDX identifiers by the lower-case spelling that model hubs
// use. A name that is not here stays a name: hubs have licences that SPDX has not.
var spdxLicences = map[string]string{
	"apache-2.0": "Apache-2.0", "mit": "MIT", "cc0-1.0": "CC0-1.0", "cc-by-4.0": "CC-BY-4.0", "cc-by-sa-4.0": "CC-BY-SA-4.0",
	"cc-by-nc-4.0": "CC-BY-NC-4.0", "cc-by-nc-sa-4.0": "CC-BY-NC-SA-4.0", "cc-by-nd-4.0": "CC-BY-ND-4.0", "bsd-2-clause": "BSD-2-Clause",
	"bsd-3-clause": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "isc": "ISC", "mpl-2.0": "MPL-2.0", "unlicense": "Unlicense", "zlib": "Zlib",
	"afl-3.0": "AFL-3.0", "artistic-2.0": "Artistic-2.0", "ecl-2.0": "ECL-2.0", "epl-2.0": "EPL-2.0", "wtfpl": "WTFPL",
}

// spdxLicence gives a declared licence's SPDX identifier, or false.
func spdxLicence(declared string) (string, bool) {
	id, ok := spdxLicences[strings.ToLower(declared)]
	return id, ok
}

// purl is the publisher's revision as a package URL, type huggingface.
func (c Chain) purl() string {
	return "pkg:huggingface/" + c.Repository + "@" + strings.ToLower(c.Revision)
}
