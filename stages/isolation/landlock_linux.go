package isolation

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/landlock-lsm/go-landlock/landlock"
	landsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// minLandlock is the first version that keeps a file from being cut short (Linux 6.2).
const minLandlock = 3

// landlockABI is the version of Landlock that the kernel has; an error when it has none.
var landlockABI = sync.OnceValues(func() (int, error) {
	v, err := landsys.LandlockGetABIVersion()
	if err == nil && v >= 1 {
		return v, nil
	}
	return 0, fmt.Errorf("%s: the kernel has none, or it is off at boot (lsm=landlock): %w", Landlock, errors.Join(err, errors.ErrUnsupported))
})

const (
	fileExecute = landlock.AccessFSSet(landsys.AccessFSExecute)
	fileRead    = landlock.AccessFSSet(landsys.AccessFSReadFile)
	folderRead  = landlock.AccessFSSet(landsys.AccessFSReadFile | landsys.AccessFSReadDir)
	fileWrite   = landlock.AccessFSSet(landsys.AccessFSReadFile | landsys.AccessFSWriteFile | landsys.AccessFSTruncate)
	folderWrite = folderRead | fileWrite | landlock.AccessFSSet(landsys.AccessFSRemoveDir|landsys.AccessFSRemoveFile|landsys.AccessFSMakeDir|landsys.AccessFSMakeReg|
		landsys.AccessFSMakeSym|landsys.AccessFSMakeFifo|landsys.AccessFSMakeSock|landsys.AccessFSRefer)
)

// restrict denies by Landlock (landlock(7)): executing anything outside the
// executable places, signals and abstract sockets across the box's border, and,
// where files are listed, opening any other and making connections.
func (job guardJob) restrict() error {
	version, err := landlockABI()
	if err != nil {
		if job.Files == nil {
			return nil // an extra wall behind the mounts, and recorded as missing
		}
		return err
	}
	config := landlock.V7
	var rules []landlock.Rule
	if job.Files == nil {
		config.HandledAccessFS, config.HandledAccessNet = fileExecute, 0
		if job.Executable == nil {
			config.HandledAccessFS = 0
		}
	} else {
		if version < minLandlock {
			return fmt.Errorf("got version %d, want at least %d (Linux 6.2)", version, minLandlock)
		}
		if job.Network {
			config.HandledAccessNet = 0
		}
		for _, p := range job.Files.Read {
			rules = append(rules, pathRule(p, fileRead, folderRead))
		}
		for _, p := range job.Files.Write {
			rules = append(rules, pathRule(p, fileWrite, folderWrite))
		}
		for _, p := range job.Files.Devices {
			rules = append(rules, pathRule(p, fileWrite|landlock.AccessFSSet(landsys.AccessFSIoctlDev), folderRead|fileWrite|landlock.AccessFSSet(landsys.AccessFSIoctlDev)))
		}
	}
	for _, p := range job.Executable {
		rules = append(rules, pathRule(p, fileExecute, fileExecute))
	}
	return config.BestEffort().Restrict(rules...)
}

// pathRule lets a file or a folder in; what is not there needs no rule.
func pathRule(path string, file, folder landlock.AccessFSSet) landlock.Rule {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		file = folder
	}
	return landlock.PathAccess(file, path).IgnoreIfMissing()
}
