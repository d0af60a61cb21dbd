package backup

import "os"

// OnSync calls see with the path of each file or directory just before it is synced.
func OnSync(see func(path string)) {
	sync := syncFile
	syncFile = func(f *os.File) error {
		see(f.Name())
		return sync(f)
	}
}
