package task

import "strings"

// Workers have ids such as "host-1@2.4.1-3kf0v2m9qa": a name, the version of the program if the worker says
// one, and random characters. So attempts, which name their worker, tell its version as well, long after its
// lease is gone.

// WorkerVersionBytesMax bounds the version in a worker's id.
const WorkerVersionBytesMax = 32

// WorkerID returns the id of a worker of a name and a version, both without "@"; an empty version: none.
func WorkerID(name, version, random string) string {
	if version != "" {
		name += "@" + version
	}
	return name + "-" + random
}

// WorkerVersion returns the version in a worker's id; empty: it has none.
func WorkerVersion(id string) string {
	_, rest, _ := strings.Cut(id, "@")
	if end := strings.LastIndexByte(rest, '-'); end > 0 {
		return rest[:end]
	}
	return ""
}
