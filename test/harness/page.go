package harness

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
)

// Page is a page of the documentation whose commands run as they stand there, in their order: each block in sh, in a folder and with a
// server of its own. A block in text has lines that the block before prints. Comments in the page say what a reader does not see:
//
//	<!-- first: kinesin lambda create mail -->    commands that the page takes for granted
//	<!-- not run: needs AWS -->                   leaves the block below out, or the rest of the page if an empty line follows
type Page struct {
	File    string            // the Markdown
	Path    string            // folders of the programs, before PATH
	Dir     string            // where commands run
	Replace *strings.Replacer // of what differs here; nil: nothing
	Serves  bool              // the page starts the server itself

	tb             testing.TB
	env            []string
	addr           string
	server, worker func() // stop it
	checks         []func()
	compared       int
}

var (
	pageParts  = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$|^<!-- (first|not run): (.*?) -->\n")
	background = regexp.MustCompile(`(?m)^kinesin (serve|worker)`)
)

// RunPage runs a page and returns how many lines of output it compared.
func RunPage(tb testing.TB, p Page) int {
	tb.Helper()
	text, err := os.ReadFile(p.File)
	if err != nil {
		tb.Fatal(err)
	}
	addr := FreeAddr(tb)
	p.tb, p.addr, p.server, p.worker = tb, addr, func() {}, func() {}
	p.env = append(os.Environ(), "PATH="+p.Path+":"+os.Getenv("PATH"), "KINESIN_LISTEN="+addr, "KINESIN_SERVER=http://"+addr)
	page := strings.ReplaceAll(string(text), "127.0.0.1:7070", addr)
	if p.Replace != nil {
		page = p.Replace.Replace(page)
	}
	if !p.Serves {
		p.start("kinesin serve\n")
	}
	parts, printed := pageParts.FindAllStringSubmatchIndex(page, -1), func() string { return "" }
	part := func(i, group int) string {
		if i >= len(parts) || parts[i][2*group] < 0 {
			return ""
		}
		return page[parts[i][2*group]:parts[i][2*group+1]]
	}
	for i, from := 0, 0; i < len(parts); i++ {
		block, comment, body := part(i, 1), part(i, 3), part(i, 2)
		switch {
		case parts[i][0] < from: // left out
		case comment == "first":
			p.run(part(i, 4), false)
		case comment != "":
			after := page[parts[i][1]:]
			if from = len(page); strings.HasPrefix(after, "```") {
				from -= len(after) - strings.Index(after, "\n```") - 1
			}
		case block == "text":
			p.compare(body, printed)
		case background.MatchString(body): // the last command of a block
			at := background.FindStringIndex(body)[0]
			out, said := p.run(body[:at], false), p.start(body[at:])
			printed = func() string { return out + said.String() }
		default:
			if strings.HasPrefix(body, "rm ") { // at its end a page clears up
				p.stop()
			}
			fails := part(i+1, 1) == "text" && strings.Contains(part(i+1, 2), "kinesin: ")
			out := p.run(body, fails)
			printed = func() string { return out }
		}
	}
	p.stop()
	for _, check := range p.checks {
		check()
	}
	return p.compared
}

// bash makes a command in a process group of its own, which its context ends.
func (p *Page) bash(ctx context.Context, commands string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", commands)
	c.Dir, c.Env, c.WaitDelay = p.Dir, p.env, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// run runs commands to their end. Each has to succeed, unless the page shows a failure.
func (p *Page) run(commands string, fails bool) string {
	p.tb.Helper()
	if !fails {
		commands = "set -e\n" + commands
	}
	ctx, cancel := context.WithTimeout(p.tb.Context(), commandMax)
	defer cancel()
	c := p.bash(ctx, commands)
	out, err := c.CombinedOutput()
	if c.Process != nil {
		_ = c.Cancel() // what it left in the background
	}
	if err != nil && !fails {
		p.tb.Fatalf("%s: %v\n%s\n%s", filepath.Base(p.File), err, commands, out)
	}
	p.tb.Logf("%s\n%s", commands, out)
	return string(out)
}

// start starts a server or a worker in the place of the one before, and returns what it says.
func (p *Page) start(command string) *runtest.Text {
	p.tb.Helper()
	place := &p.worker
	if strings.HasPrefix(command, "kinesin serve") {
		place = &p.server
	}
	(*place)()
	said, c := &runtest.Text{}, p.bash(context.WithoutCancel(p.tb.Context()), "exec "+command)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		p.tb.Fatal(err)
	}
	*place = sync.OnceFunc(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		// A worker may be told to end before it is there to hear.
		if err := c.Wait(); err != nil && (place != &p.worker || err.Error() != "signal: terminated") {
			p.tb.Errorf("%s ended with %v:\n%s", command, err, said)
		}
		p.tb.Logf("%s\n%s", command, said)
	})
	p.tb.Cleanup(*place)
	if place == &p.server {
		runtest.Eventually(p.tb, readyMax, "the server is ready", func() bool {
			response, err := http.Get("http://" + p.addr + "/readyz")
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
	}
	return said
}

func (p *Page) stop() {
	p.worker()
	p.server()
}

// compare looks for the lines that the page shows: at once in what a command printed, and at the end in what a worker did.
func (p *Page) compare(shown string, printed func() string) {
	p.checks = append(p.checks, func() {
		p.tb.Helper()
		for line := range strings.Lines(shown) {
			if p.compared++; !shownBy(line).MatchString(printed()) {
				p.tb.Errorf("%s shows %q, and this was printed:\n%s", filepath.Base(p.File), line, printed())
			}
		}
	})
}

// shownBy returns what a line of a page stands for: ids, names, numbers and units differ, and "…" is anything.
func shownBy(line string) *regexp.Regexp {
	form := regexp.QuoteMeta(strings.TrimSpace(line))
	for _, r := range [][2]string{{`k[\w-]+…`, `\S+`}, {`host-[0-9]+`, `\S+`}, {`[0-9]+(\\\.[0-9]+)?`, `[0-9]+(\.[0-9]+)?`}, {`[µm]?s\b`, `\S*s`}, {` +`, `\s+`}, {`…`, `.*`}} {
		form = regexp.MustCompile(r[0]).ReplaceAllLiteralString(form, r[1])
	}
	return regexp.MustCompile(form)
}
