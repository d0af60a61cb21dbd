package dist

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// TestTutorial runs the commands of docs/start/tutorial.md with the program of the archive, in their order and with their
// pauses, and compares what they print with what the page shows.
func TestTutorial(t *testing.T) {
	folder := fmt.Sprintf("kinesin_%s_linux_%s", version(t), runtime.GOARCH)
	archive := filepath.Join(dist(t), folder+".tar.gz")
	t.Parallel()
	dir := t.TempDir()
	run(t, "cp", archive, dir)
	compared := harness.RunPage(t, harness.Page{
		File: filepath.Join(root, "docs", "start", "tutorial.md"), Path: filepath.Join(dir, folder), Dir: dir, Serves: true,
		Replace: strings.NewReplacer("linux_amd64", "linux_"+runtime.GOARCH),
	})
	if compared < 40 {
		t.Errorf("only %d lines were compared", compared)
	}
}
