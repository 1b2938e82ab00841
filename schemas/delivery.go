package schemas

// Facts of a delivery (see [Result.Facts]). They stand in internalParameters of
// its Statement too, which signs them.
const (
	FactDestination    = "destination"    // the file's name at its destination
	FactResumed        = "resumed"        // bytes that were there already, as "<n> bytes"
	FactSize           = "size"           // bytes of the delivered file, decimal
	FactVia            = "via"            // how the bytes went: folder, sftp, rsync, oci
	FactLocalDigest    = "localDigest"    // sha256 of all bytes on this machine, read after the transfer
	FactRemoteDigest   = "remoteDigest"   // sha256 of all bytes at the other end, taken after the transfer
	FactRemoteDigestBy = "remoteDigestBy" // how that one was computed
	FactManifest       = "manifest"       // digest of the OCI manifest
	FactSources        = "sources"        // whether this machine's own snapshot agrees with the other's
)
