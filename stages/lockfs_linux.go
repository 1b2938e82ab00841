package stages

import "golang.org/x/sys/unix"

// withoutLocks says why a folder's file system is not to be trusted with a
// lock: another machine shares it, and whether its locks reach that one, or
// outlive a lost connection, is up to mount options that cannot be seen.
func withoutLocks(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return sharedFileSystem(int64(st.Type))
}

func sharedFileSystem(magic int64) string {
	switch uint32(magic) { // statfs(2)
	case unix.NFS_SUPER_MAGIC:
		return "it lies on NFS"
	case unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "it lies on a share of another machine (SMB)"
	case unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return "it lies on a file system of several machines"
	}
	return ""
}
