package server

import (
	"errors"
	"fmt"
)

// ErrDescriptors is returned if the process may not open as many files as a server needs.
var ErrDescriptors = errors.New("too few open files are allowed")

// Shares of the files that a process may open. Connections count as files.
const (
	// ownFiles are for everything but data files and connections: the store's log and manifest, flushes and
	// compactions, a backup, tokens and certificates, DNS, the standard streams.
	ownFiles = 48
	// storeFilesMin is the least that the storage engine takes.
	storeFilesMin  = 80
	storeFilesMax  = 500
	storeFilesPart = 4 // of all that are allowed
	// serviceFilesPart of all that are allowed are for connections to AWS.
	serviceFilesPart = 2
	connectionsMin   = 32
	connectionsMax   = 1 << 16
)

// descriptors are the shares of the open files.
type descriptors struct {
	store       int // the embedded one; 0: there is none
	connections int // of callers
}

// shareFiles divides the allowed files.
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
		return d, fmt.Errorf("%w: this process may have %d, including connections; a server needs %d, better 1024 or more: "+
			"raise the limit (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of Docker)", ErrDescriptors, allowed, need)
	}
	return d, nil
}
