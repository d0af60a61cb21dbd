package dist

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/runtest"
)

// TestArchive unpacks the archive into an empty root file system and runs the demo there, and then, with a shell for the worker's
// command, what the README says under Use it, word by word.
func TestArchive(t *testing.T) {
	folder := fmt.Sprintf("kinesin_%s_linux_%s", version(t), runtime.GOARCH)
	archive := filepath.Join(dist(t), folder+".tar.gz")
	j := newJail(t)
	run(t, "tar", "-xzf", archive, "-C", j.dir, "--no-same-owner")
	j.env = []string{"PATH=/" + folder + ":/bin"}
	j.onFreePort()
	program := "/" + folder + "/kinesin"
	if got := strings.Fields(j.run(program, "version")); got[1] != version(t) {
		t.Errorf("version: %v", got)
	}
	if out := j.run(program, "demo", "--once"); !strings.Contains(out, "success") {
		t.Errorf("the demo shows no success:\n%s", out)
	}

	j.bring("/bin/sh", "/bin/cat")
	readme := read(t, filepath.Join(j.dir, folder, "README.md"))
	_, rest, _ := strings.Cut(readme, "## Use it")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(rest)
	if block == nil {
		t.Fatal("the README has no commands under Use it")
	}
	var worked *runtest.Text
	id := ""
	for _, line := range lines([]byte(block[1])) {
		line = strings.ReplaceAll(line, " ID", " "+id)
		switch {
		case line == "kinesin serve":
			j.start(j.command("/bin/sh", "-c", "exec "+line))
			eventually(t, "the server answers", func() bool { return j.command(program, "stats").Run() == nil })
		case strings.HasPrefix(line, "kinesin worker"):
			worked, _ = j.start(j.command("/bin/sh", "-c", "exec "+line))
		default:
			out := j.run("/bin/sh", "-c", line)
			if id == "" && strings.HasPrefix(line, "kinesin schedule") {
				id = firstLine(out)
				j.run(program, "wait", id, "--timeout", "20s")
			}
		}
	}
	if !strings.Contains(worked.String(), "hello Ada, attempt 1") {
		t.Errorf("the worker says %v", worked)
	}
	if links := regexp.MustCompile(`\]\((docs[^)]*)\)`).FindString(readme); links != "" {
		t.Errorf("a link to a file that is not in the archive: %s", links)
	}
}
