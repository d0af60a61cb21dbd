package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Follower rewrites patches that applied to an earlier commit so that they apply to the files as they are
// now. Git says which files moved, and merges the bug with the other changes.
type Follower struct {
	root string
	rev  string
	// movedTo maps every file that was renamed since rev, and every folder whose files were, to its present
	// path.
	movedTo map[string]string
}

// NewFollower compares the checkout at root with the commit rev.
func NewFollower(ctx context.Context, root, rev string) (*Follower, error) {
	f := &Follower{root: root, rev: rev, movedTo: map[string]string{}}
	names, err := f.git(ctx, "diff", "--name-status", "--find-renames=40%", "--diff-filter=R", "-l0", rev, "--", "*.go")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(names) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 3 {
			f.movedTo[fields[1]] = fields[2]
			f.movedTo[path.Dir(fields[1])] = path.Dir(fields[2])
		}
	}
	return f, nil
}

// Follow returns the text of the mutant's patch for the files as they are now.
func (f *Follower) Follow(ctx context.Context, m *Mutant, text []byte) ([]byte, error) {
	broken, err := m.apply(func(path string) (string, error) { return f.git(ctx, "show", f.rev+":"+path) })
	if err != nil {
		return nil, err
	}
	header, _, _ := bytes.Cut(text, []byte("\n--- "))
	out := bytes.NewBuffer(f.header(header))
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		diff, err := f.file(ctx, path, broken[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		out.WriteString("\n" + diff)
	}
	return out.Bytes(), nil
}

// header renames the packages of the Test line that have moved.
func (f *Follower) header(header []byte) []byte {
	words := strings.Split(string(header), " ")
	for i, word := range words {
		folder, end, _ := strings.Cut(strings.TrimPrefix(word, "./"), "\n")
		if _, err := os.Stat(filepath.Join(f.root, folder)); err == nil || !strings.HasPrefix(word, "./") {
			continue
		}
		if to, moved := f.movedTo[folder]; moved {
			words[i] = "./" + to
			if end != "" || strings.HasSuffix(word, "\n") {
				words[i] += "\n" + end
			}
		}
	}
	return []byte(strings.Join(words, " "))
}

// file merges the bug, which is the difference between a file at rev and broken, into the file as it is now,
// and returns the difference that it makes there.
func (f *Follower) file(ctx context.Context, was, broken string) (string, error) {
	now := was
	if to, moved := f.movedTo[was]; moved {
		now = to
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	old, err := f.git(ctx, "show", f.rev+":"+was)
	if err != nil {
		return "", err
	}
	present, err := os.ReadFile(filepath.Join(f.root, now))
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{"old": old, "broken": broken, "now": string(present), "merged": string(present)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if _, err := f.git(ctx, "merge-file", "-q", file("merged"), file("old"), file("broken")); err != nil {
		return "", fmt.Errorf("%s changed where the bug is: %w", now, err)
	}
	diff, err := f.git(ctx, "diff", "--no-index", "-U1", "--no-color", file("now"), file("merged"))
	if err != nil && diff == "" {
		return "", err
	}
	_, diff, found := strings.Cut(diff, "\n@@ ")
	if !found {
		return "", fmt.Errorf("%s has the bug already", now)
	}
	return "--- a/" + now + "\n+++ b/" + now + "\n@@ " + diff, nil
}

// git returns what a git command prints, also when its exit code says that there are differences.
func (f *Follower) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = f.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return string(out), err
}
