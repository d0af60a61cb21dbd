package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuideIsTrue looks in the sources for every series and every message of Kinesin's that
// docs/how-to/kubernetes.md speaks of. Its commands are run by test/kube.
func TestGuideIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := sources(t)
	seen := 0
	for _, name := range regexp.MustCompile(`\bkinesin_[a-z0-9_]*[a-z0-9]\b`).FindAllString(string(text), -1) {
		seen++
		if name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"); !strings.Contains(said, `"`+name+`"`) && !strings.Contains(said, "`"+name+"`") {
			t.Errorf("there is no series %s", name)
		}
	}
	for _, message := range messages(string(text)) {
		seen++
		for part := range strings.SplitSeq(message, "…") {
			if part = strings.Trim(part, " :"); !strings.Contains(said, part) {
				t.Errorf("nothing says %q", part)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d series and messages found", seen)
	}
}

// TestVariablesAreSettings looks among the settings for every variable that pods have: a server says nothing of one
// that it does not know.
func TestVariablesAreSettings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"default", "embedded", "everything", "keda"} {
		for _, name := range regexp.MustCompile(`\bKINESIN_[A-Z_]+\b`).FindAllString(Render(t, "kinesin", namespace, Values(s)), -1) {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "KINESIN_"), "_", "-"))
			if !regexp.MustCompile("`--" + flag + "[ `]").Match(text) {
				t.Errorf("%s: no flag of serve is --%s, for %s", s, flag, name)
			}
		}
	}
}

// foreignMessages are what Helm, the kubelet and the operating system say.
var foreignMessages = []string{"values don't meet", "at '/", "conflict with", "stat /", "MountVolume", "FailedBinding", "0/1", "/readyz", "kinesin-", "unauthenticated"}

// messages are the quotes in the first column of the table of what is said when something is wrong.
func messages(page string) []string {
	_, rest, _ := strings.Cut(page, "## When it does not start")
	table, _, _ := strings.Cut(rest, "\n## ")
	var all []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			continue
		}
		for _, quote := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if !startsWithAny(quote[1], foreignMessages) {
				all = append(all, quote[1])
			}
		}
	}
	return all
}

func startsWithAny(s string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return false
}

// verbs are where numbers and names go into messages, and how lines of one are joined in Go.
var (
	verbs  = regexp.MustCompile(`%[dqsvw]`)
	joints = regexp.MustCompile(`" \+\s+"`)
)

// sources is all that programs and chart are made of, with what is filled in left open as in the guide.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "test" || name == "tools" || name == "testdata" || len(name) > 2 && name[0] == '.') {
			return fs.SkipDir
		}
		code := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".tpl")
		if d.IsDir() || !code {
			return nil
		}
		text, err := os.ReadFile(path)
		all.WriteString(joints.ReplaceAllString(strings.ReplaceAll(string(text), `\"`, `"`), ""))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return verbs.ReplaceAllString(all.String(), "…")
}
