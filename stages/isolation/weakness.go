package isolation

import (
	"slices"

	"github.com/weighmaster/weighmaster/schemas"
)

// weakness says in words what a way to make a box does not deny.
var weakness = map[Method][]string{
	Bubblewrap: {
		"everything below /usr can be read, and what is executable there can be run",
		"an interpreter of the box runs a script that was written, and a program runs code that it makes in memory",
		"sockets that lie in a mount can be reached: a mount that holds one is refused when the box is opened, not later",
		"/proc/self/mountinfo tells the paths of the mounts on the machine",
		"with the network let in, abstract sockets of the machine can be reached where Landlock is older than version 6",
		"processor time and memory are not bounded",
	},
	Landlock: {
		"files outside cannot be opened, but that they are there, their sizes, owners and times can be seen",
		"owner, mode and times of files can be changed where the user may; so root's files keep root as owner when the user stays root",
		"a file that was written can be loaded as a library, although not executed",
		"only the program itself sees /proc/self, not the processes that it starts",
		"there is no shared memory: a program whose processes share semaphores or memory by name fails",
		"processes outside can be seen by number; a process that the program leaves behind is not ended",
		"processor time and memory are not bounded",
	},
	Sandbox: {
		"it was compiled and tested as text, never run on a Mac by this project's tests",
		"that files are there, their sizes, owners and times can be seen",
		"there is no user of its own, no private /tmp and no private view of processes",
		"processor time and memory are not bounded",
	},
	None: {"nothing is denied"},
}

// NotDenied says in words what a way to make a box does not deny.
func NotDenied(m Method) []string { return slices.Clone(weakness[m]) }

// Gives lists the attributes that a way to make a box can show, in their order.
func Gives(m Method) []string {
	var lacks []string
	switch m {
	case Bubblewrap:
	case Landlock:
		// The user becomes another only where root can hand the folder over.
		lacks = []string{schemas.HomesHidden, schemas.OtherModelsHidden, schemas.UID65534, schemas.PrivateTmp, schemas.PrivateProc, schemas.PrivateShm}
	case Sandbox:
		lacks = []string{schemas.HomesHidden, schemas.OtherModelsHidden, schemas.UID65534, schemas.NoCapabilities, schemas.NoNewPrivileges, schemas.PrivateTmp, schemas.PrivateProc, schemas.PrivateShm}
	default:
		return []string{schemas.ComputationWorks}
	}
	var list []string
	for _, a := range schemas.BoxAttributes() {
		if !slices.Contains(lacks, a) {
			list = append(list, a)
		}
	}
	return list
}
