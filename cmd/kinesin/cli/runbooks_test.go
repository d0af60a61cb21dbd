package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// words splits a line of a runbook as a shell does that knows single quotes and pipes only.
func words(line string) (all []string) {
	line, _, _ = strings.Cut(line, " | ")
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(w, "'"))
	}
	return all
}

// Each command of each runbook runs as it is there, against a server with the lambda mail.
func TestRunbookCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("objective", "set", "mail", "--within", "5s", "--objective", "99")
	pages, err := filepath.Glob("../../../docs/runbooks/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d runbooks: %v", len(pages), err)
	}
	ran, dir := 0, t.TempDir()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, block, found := strings.Cut(string(text), "```sh\n")
		block, _, ended := strings.Cut(block, "```")
		if !found || !ended {
			t.Errorf("%s has no commands", page)
		}
		commands := strings.Split(strings.TrimSpace(block), "\n")
		for _, c := range regexp.MustCompile("`kinesin ([^`]+)`").FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1) {
			if strings.Contains(c[1], "--") {
				commands = append(commands, "kinesin "+c[1])
			}
		}
		for _, line := range commands {
			w := words(line)
			switch {
			case strings.HasPrefix(line, "#"), w[0] == "df":
				continue
			case w[0] == "kinesin":
				for i := range w {
					if i > 0 && w[i-1] == "--file" {
						w[i] = filepath.Join(dir, filepath.Base(page)+w[i])
					}
				}
				if o := s.do(w[1:]...); o.code != 0 {
					t.Errorf("%s: %s: exit %d: %s", page, line, o.code, o.stderr)
				}
			case w[0] == "curl":
				response, err := http.Get(s.url + strings.TrimPrefix(w[2], "http://127.0.0.1:7070"))
				if err != nil || response.StatusCode == http.StatusNotFound {
					t.Errorf("%s: %s: %v %v", page, line, response, err)
				}
				if err == nil {
					_ = response.Body.Close()
				}
			default:
				t.Errorf("%s: what is %q?", page, line)
			}
			ran++
		}
	}
	if ran < 25 {
		t.Errorf("only %d commands", ran)
	}
}
