package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// guideCommands are the commands of docs/how-to/backup.md, in its order.
func guideCommands(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		commands = append(commands, block[1])
	}
	return commands
}

// guide runs the commands of the page below a directory of the test.
type guide struct {
	*harness.Server

	t        *testing.T
	root     string
	commands []string
}

// next is the next command of the page, for this machine.
func (g *guide) next(prefix string) []string {
	g.t.Helper()
	if len(g.commands) == 0 || !strings.HasPrefix(g.commands[0], prefix) {
		g.t.Fatalf("the page goes on with %q, want %q", g.commands, prefix)
	}
	text := strings.NewReplacer("/backup/", g.root+"/backup/", "/var/lib/", g.root+"/lib/", "/tmp/", g.root+"/tmp/", "http://127.0.0.1:7070", g.URL).Replace(g.commands[0])
	g.commands = g.commands[1:]
	return strings.Fields(text)[1:]
}

// TestBackupGuide does what docs/how-to/backup.md says, in its order: backups of a server that works, the loss of
// that server, a restore, a look at it, and a restored server that works.
func TestBackupGuide(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"backup", "lib", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g := guide{Server: &harness.Server{}, t: t, root: root, commands: guideCommands(t)}
	serve := g.next("kinesin serve")
	g.Server = harness.StartServer(t, harness.ServerOptions{Dir: serve[2], Args: append(serve[3:], "--backup-every", "1s")})
	g.Run("lambda", "create", "work").Must(t)
	ran := g.Run("schedule", "work", "--in", "2s", "--key", "ran").Must(t)
	later := g.Run("schedule", "work", "--in", "1h", "--payload", "later").Must(t)
	live := drill{t: t, place: filepath.Join(root, "backup", "live")}
	scheduled := time.Now()
	eventually(t, "a recovery point has it", func() bool { return live.pointed().After(scheduled) })

	for range 2 { // FILE, then DIR
		if said := harness.Run(t, g.next("kinesin backup")...).Must(t); !strings.Contains(said, "backed up to "+root) {
			t.Errorf("it says %q", said)
		}
	}
	missed := g.Run("schedule", "work", "--in", "1h").Must(t)
	g.CommandWorker("--lambda", "work", "--", "true")
	g.Run("wait", ran, "--timeout", "20s").Must(t)
	g.Crash()
	if err := os.RemoveAll(g.Dir); err != nil {
		t.Fatal(err)
	}

	watching := harness.Start(t, harness.Command{Args: g.next("kinesin standby")})
	eventually(t, "the standby has a copy", func() bool { return strings.Contains(watching.Stderr(), "has the newest recovery point") })
	watching.Signal(syscall.SIGTERM)
	watching.Wait(soon)
	harness.Run(t, append(g.next("kinesin standby"), "--wait", "0s")...).Must(t)
	serve = g.next("kinesin serve")
	second := harness.StartServer(t, harness.ServerOptions{Dir: serve[2], Args: serve[3:]})
	if v := second.Get(later); v.State != "scheduled" {
		t.Errorf("the task for later is %s", v.State)
	}
	second.Shutdown()

	first := g.next("kinesin restore")
	said := harness.Run(t, first...).Must(t)
	if !strings.Contains(said, "2 live tasks, 1 of them overdue") {
		t.Errorf("it says %q", said)
	}
	if err := os.RemoveAll(filepath.Join(root, "lib", "kinesin")); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, g.next("kinesin restore")...).Must(t)

	serve = g.next("kinesin serve")
	look := harness.StartServer(t, harness.ServerOptions{Dir: serve[2], Args: serve[3:]})
	var listed struct{ Tasks []harness.Shown }
	look.Run(g.next("kinesin list")...).JSON(t, &listed)
	states := map[string]string{}
	for _, v := range listed.Tasks {
		states[v.ID] = v.State
	}
	if states[ran] != "enqueued" || states[later] != "scheduled" || len(states) != 2 {
		t.Errorf("%v are there, want %s and %s", states, ran, later)
	}
	look.Run("get", missed).Refused(t, 1, missed)
	time.Sleep(time.Second) // nothing starts
	if v := look.Get(ran); v.State != "enqueued" {
		t.Errorf("the overdue task is %s with the role inbound alone", v.State)
	}
	cancel := g.next("kinesin cancel")
	look.Run(append(cancel[:len(cancel)-1], ran)...).Must(t)
	if code := look.Shutdown(); code != 0 {
		t.Errorf("exit status %d", code)
	}

	restored := harness.StartServer(t, harness.ServerOptions{Dir: filepath.Join(root, "lib", "kinesin")})
	soonDue := restored.Run("schedule", "work").Must(t)
	restored.CommandWorker("--lambda", "work", "--", "true")
	restored.Run("wait", soonDue, "--timeout", "20s").Must(t)
	if v := restored.Get(ran); v.State != "cancelled" {
		t.Errorf("what was cancelled is %s", v.State)
	}
	harness.Run(t, g.next("kinesin restore")...).Must(t)
	if len(g.commands) != 0 {
		t.Errorf("commands of the page that are not tried: %q", g.commands)
	}
}

// TestBackupSchedule holds the line of cron on the page to a command that this program takes.
func TestBackupSchedule(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	found := regexp.MustCompile(`(?m)^17 \* \* \* \* kinesin (.*) >/dev/null$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("no line of cron")
	}
	root := t.TempDir()
	line := strings.NewReplacer("/backup/", root+"/", "http://127.0.0.1:7070", s.URL).Replace(string(found[1]))
	harness.Run(t, strings.Fields(line)...).Must(t)
	if made := recoveryPoints(t, filepath.Join(root, "kinesin")); len(made) != 1 {
		t.Errorf("cron made %v", made)
	}
}

// recoveryPoints lists the recovery points in a directory.
func recoveryPoints(t *testing.T, dir string) []string {
	t.Helper()
	made, err := filepath.Glob(filepath.Join(dir, "points", "[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// backupObject is what `backup -o json` prints.
type backupObject struct {
	Bytes     int64 `json:"bytes"`
	SentBytes int64 `json:"sent_bytes"`
}

// TestBackupOfAServerAtWork makes backups while tasks are scheduled: what was acknowledged before each began
// is in it.
func TestBackupOfAServerAtWork(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	line := `{"lambda":"work","delay":"1h","payload_text":"` + strings.Repeat("x", 300) + "\"}\n"
	dir := filepath.Join(t.TempDir(), "backup") + "/"
	acked := 0
	done := make(chan int)
	for round := range 3 {
		go func() {
			r := s.Feed(strings.Repeat(line, 5000), "schedule", "--batch", "-")
			done <- strings.Count("\n"+r.Stdout, "\nk1") // an id may have k1 in it once more
		}()
		path := dir
		if round == 1 {
			path = filepath.Join(t.TempDir(), "backup.tar")
		}
		var made backupObject
		s.Run("backup", path, "-o", "json").JSON(t, &made)
		acknowledged := acked
		acked += <-done
		if round == 2 && made.SentBytes >= made.Bytes {
			t.Errorf("a second backup to the same directory fetched %d of %d bytes", made.SentBytes, made.Bytes)
		}
		var restored struct {
			Live int `json:"live_tasks"`
		}
		harness.Run(t, "restore", "--from", path, "--data", filepath.Join(t.TempDir(), "data"), "-o", "json").JSON(t, &restored)
		if restored.Live < acknowledged || restored.Live > acked {
			t.Errorf("backup %d has %d tasks, want %d to %d", round, restored.Live, acknowledged, acked)
		}
	}
}

// TestBackupThatIsInterrupted kills the command and the server in the middle: the backup before it is still
// one, and nothing else is.
func TestBackupThatIsInterrupted(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	line := `{"lambda":"work","delay":"1h","payload_text":"%s"}` + "\n"
	var lines strings.Builder
	for n := range 400 { // 40 MB that do not compress: the server reads 64 MiB a second
		fmt.Fprintf(&lines, line, random(75_000, n))
	}
	if r := s.Feed(lines.String(), "schedule", "--batch", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	root := t.TempDir()
	dir, file := filepath.Join(root, "dir")+"/", filepath.Join(root, "file.tar")
	interrupted := func(path string, end func(*harness.Process)) harness.Result {
		p := harness.Start(t, harness.Command{Args: []string{"backup", path, "--server", s.URL}})
		pattern := map[string]string{dir: filepath.Join(root, "dir", "pieces", "[0-9a-f]*"), file: file + ".unfinished"}[path]
		eventually(t, "it has begun", func() bool {
			all, err := filepath.Glob(pattern)
			return err == nil && slices.ContainsFunc(all, func(name string) bool { info, err := os.Stat(name); return err == nil && info.Size() > 1<<20 })
		})
		end(p)
		return p.Result(soon)
	}
	try := func(path string) harness.Result {
		return harness.Run(t, "restore", "--from", path, "--data", filepath.Join(t.TempDir(), "data"))
	}
	ends := []func(*harness.Process){func(p *harness.Process) { p.Signal(syscall.SIGTERM) }, func(p *harness.Process) { p.Kill() }}
	for _, path := range []string{dir, file} {
		for n, end := range ends {
			r := interrupted(path, end)
			left, err := filepath.Glob(path + "*unfinished")
			if n == 0 && (r.Code != 1 || !strings.Contains(r.Stderr, "interrupted") || err != nil || len(left) != 0) {
				t.Errorf("%s after SIGTERM: %+v, left %v, %v", path, r, left, err)
			}
			if r := try(path); r.Code != 1 {
				t.Errorf("%s was interrupted, and restored: %+v", path, r)
			}
		}
	}
	s.Run("backup", file).Must(t)
	interrupted(file, func(*harness.Process) { s.Crash() }).Refused(t, 1, "not complete")
	try(file).Must(t)
	s.Start()
	if _, err := os.Stat(filepath.Join(s.Dir, "snapshot")); err == nil {
		t.Error("a killed server left its snapshot")
	}
	s.Run("backup", dir).Must(t)
	try(dir).Must(t)
}

// TestBackupBadInput gives both commands what they cannot do.
func TestBackupBadInput(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	root := t.TempDir()
	file, data := filepath.Join(root, "b.tar"), filepath.Join(root, "data")
	other := filepath.Join(root, "other")
	if err := os.MkdirAll(filepath.Join(other, "photos"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Run("backup").Refused(t, 2, "FILE or PLACE")
	s.Run("backup", file, file).Refused(t, 2, "one argument too many")
	s.Run("backup", other).Refused(t, 1, "photos", "no part of one")
	s.Run("backup", filepath.Join(root, "none", "b.tar")).Refused(t, 1, "no such file or directory")
	s.Run("backup", "s3:/"+"/", "--keep", "1h").Refused(t, 1, "s3://BUCKET")
	s.Run("backup", file, "--keep", "1m").Refused(t, 2, "want at least 1h")
	s.Run("backup", "/dev/null").Refused(t, 1, "/dev/null", "neither a file nor a directory")
	harness.Run(t, "backup", file, "--server", harness.FreeAddr(t)).Refused(t, 1, "cannot reach a server")
	if left, err := filepath.Glob(file + "*"); err != nil || len(left) != 0 {
		t.Errorf("%v left", left)
	}
	s.Run("backup", file).Must(t)

	restore := func(from string, args ...string) harness.Result {
		return harness.Run(t, append([]string{"restore", "--from", from}, args...)...)
	}
	restore(file).Refused(t, 2, "--data")
	restore(file, file, "--data", data).Refused(t, 2, file)
	harness.Run(t, "restore", "--data", data).Refused(t, 2, "--from")
	restore(file, "--data", data, "--at", "yesterday").Refused(t, 2, "--at")
	restore(file, "--data", data, "--at", "2020-01-01T00:00:00Z").Refused(t, 1, "no complete backup that old: it is of 20")
	restore(file, "--data", other).Refused(t, 1, other, "not empty", "photos")
	restore(filepath.Join(root, "none"), "--data", data).Refused(t, 1, "none", "no such file")
	restore(other, "--data", data).Refused(t, 1, other, "no complete backup")
	restore(file, "--data", s.Dir).Refused(t, 1, s.Dir, "not empty")

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"flipped":   flipped(content, strings.Index(string(content), "MANIFEST-")+530),
		"manifest":  flipped(content, strings.Index(string(content), `{"format"`)+30),
		"cut":       content[:len(content)/2],
		"cut short": content[:strings.Index(string(content), `{"format"`)-600],
		"else":      []byte("no archive at all"),
		"nothing":   nil,
	} {
		path := filepath.Join(root, "damaged.tar")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r := restore(path, "--data", data)
		if r.Code != 1 || !strings.Contains(r.Stderr, "damaged backup") && !strings.Contains(r.Stderr, "no complete backup") {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: something was restored", name)
		}
	}
	restore(file, "--data", data).Must(t)
}

func flipped(content []byte, at int) []byte {
	damaged := slices.Clone(content)
	damaged[at] ^= 0x40
	return damaged
}

// random is a text that no compression makes shorter than three quarters of it.
func random(n, seed int) string {
	text, state := make([]byte, n), uint64(seed+1)*0x9e3779b97f4a7c15
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range text {
		state = state*6364136223846793005 + 1442695040888963407
		text[i] = letters[state>>58]
	}
	return string(text)
}
