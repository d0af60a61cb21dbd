// Package dist holds the files that make dist makes, for the platform of this machine, to what docs/start/install.md says of them: each
// is unpacked or installed in a root file system that has nothing else, and is used there. It needs Linux, and root for
// all but the comparison of versions.
package dist
