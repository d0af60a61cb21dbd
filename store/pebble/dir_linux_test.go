package pebble_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/store/pebble"
)

func TestADirectoryIsClosedToOthers(t *testing.T) {
	t.Parallel()
	for mode, mended := range map[os.FileMode]bool{0o700: false, 0o750: true, 0o755: true, 0o777: true, 0o2770: true, 0o701: true} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		d, err := pebble.Open(dir, pebble.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%04o became %v, %v", mode, info.Mode(), err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if told := strings.Contains(log.String(), "others could use the data directory"); told != mended {
			t.Errorf("%04o: the log says %s", mode, log.String())
		}
	}
}

func TestADirectoryThatStaysOpenIsRefused(t *testing.T) {
	t.Parallel()
	const dir = "/proc/self" // whose mode nobody can change
	if _, err := pebble.Open(dir, pebble.Config{}); err == nil || !strings.Contains(err.Error(), "others may use it (mode 0555), and that cannot be changed") {
		t.Error(err)
	}
}
