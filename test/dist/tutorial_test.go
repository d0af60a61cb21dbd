package dist

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// TestTutorial runs the commands of docs/start/tutorial.md with the program of the archive, in their order and with their
// pauses, and compares what they print with what the page shows.
func TestTutorial(t *testing.T) {
	folder := fmt.Sprintf("kinesin_%s_linux_%s", version(t), runtime.GOARCH)
	archive := filepath.Join(dist(t), folder+".tar.gz")
	t.Parallel()
	port, err := loopback.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr, dir := fmt.Sprintf("127.0.0.1:%d", port), t.TempDir()
	run(t, "cp", archive, dir)
	bash := func(commands string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "bash", "-c", commands)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+filepath.Join(dir, folder)+":"+os.Getenv("PATH"), "KINESIN_LISTEN="+addr, "KINESIN_SERVER=http://"+addr)
		return c
	}
	starts, stopWorker, stopServer := &jail{t: t}, func() {}, func() {}
	printed, compared := "", 0
	for _, block := range regexp.MustCompile("(?s)```(sh|text)\n(.*?)```").FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "start", "tutorial.md")), -1) {
		commands := strings.NewReplacer("127.0.0.1:7070", addr, "linux_amd64", "linux_"+runtime.GOARCH).Replace(block[2])
		switch {
		case block[1] == "text":
			for line := range strings.Lines(block[2]) {
				if compared++; !shownBy(line).MatchString(printed) {
					t.Errorf("the page shows %q, and this was printed:\n%s", line, printed)
				}
			}
		case strings.HasPrefix(commands, "kinesin serve"):
			_, stopServer = starts.start(bash("exec " + commands))
			eventually(t, "the server answers", func() bool { return bash("kinesin stats").Run() == nil })
		case strings.HasPrefix(commands, "kinesin worker"):
			stopWorker()
			_, stopWorker = starts.start(bash("exec " + commands))
		default:
			if strings.HasPrefix(commands, "rm ") {
				stopWorker()
				stopServer()
			}
			out, _ := bash(commands).CombinedOutput() // some commands of the page fail, which it shows
			printed = string(out)
		}
	}
	if compared < 40 {
		t.Errorf("only %d lines were compared", compared)
	}
}

// shownBy returns what a line of the page stands for: ids, names, numbers and units differ, and "…" is anything.
func shownBy(line string) *regexp.Regexp {
	form := regexp.QuoteMeta(strings.TrimSpace(line))
	for _, r := range [][2]string{{`k[\w-]+…`, `\S+`}, {`host-[0-9]+`, `\S+`}, {`[0-9]+`, `[0-9]+`}, {`[µm]?s\b`, `\S*s`}, {` +`, `\s+`}, {`…`, `.*`}} {
		form = regexp.MustCompile(r[0]).ReplaceAllLiteralString(form, r[1])
	}
	return regexp.MustCompile(form)
}
