package server

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrDescriptors says that the process may not have as many files open as a server needs.
var ErrDescriptors = errors.New("too few open files are allowed")

// How the files that a process may have open are shared out. Connections count as files.
const (
	// ownFiles are for everything but data files and connections: the log and the manifest of the store, what
	// flushes and compactions write, a backup, tokens and certificates, look-ups of names, the standard
	// streams.
	ownFiles = 48
	// storeFilesMin is what the storage engine takes at least.
	storeFilesMin  = 80
	storeFilesMax  = 500
	storeFilesPart = 4 // of all that are allowed
	// serviceFilesPart of all that are allowed are for connections to AWS.
	serviceFilesPart = 2
	connectionsMin   = 32
	connectionsMax   = 1 << 16
)

// descriptors says how many files each may have open.
type descriptors struct {
	store       int // the embedded one; 0: there is none
	connections int // of callers
}

// allowedFiles is how many files this process may have open. The runtime has raised that to what the system
// lets it.
func allowedFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ask how many files may be open: %w", err)
	}
	return limit.Cur, nil
}

// shareFiles shares out the files that are allowed.
func shareFiles(allowed uint64, c *Config) (descriptors, error) {
	all := int(min(allowed, 1<<20))
	var d descriptors
	elsewhere := 0
	if c.Store == StorePebble {
		d.store = min(max(all/storeFilesPart, storeFilesMin), storeFilesMax)
	}
	if c.onAWS() {
		elsewhere = all / serviceFilesPart
	}
	d.connections = min(all-ownFiles-d.store-elsewhere, connectionsMax)
	if d.connections < connectionsMin {
		need := ownFiles + d.store + connectionsMin
		if c.onAWS() {
			need *= serviceFilesPart
		}
		return d, fmt.Errorf("%w: this process may have %d, connections among them; a server needs %d at least, and better 1024 or more: "+
			"raise the limit (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of Docker)", ErrDescriptors, allowed, need)
	}
	return d, nil
}
