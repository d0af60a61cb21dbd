package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hunk is one place that a diff changes: its old lines, context included, and its new ones.
type hunk struct {
	path      string
	line      int // where it was, from 0: a hint
	old, anew []string
}

var errDiff = errors.New("not a unified diff as `git diff` makes it")

// hunks reads the diff of a mutant. It takes line numbers as hints, and ignores counts.
func (m *Mutant) hunks() ([]hunk, error) {
	var all []hunk
	path := ""
	for line := range strings.Lines(string(m.diff)) {
		last := len(all) - 1
		switch text := line[1:]; {
		case strings.HasPrefix(line, "--- a/"):
		case strings.HasPrefix(line, "+++ b/"):
			path = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@ -"):
			h := hunk{path: path}
			if n, err := fmt.Sscanf(line, "@@ -%d", &h.line); n != 1 || err != nil || path == "" {
				return nil, fmt.Errorf("%w: %q", errDiff, line)
			}
			h.line--
			all = append(all, h)
		case last < 0:
			return nil, fmt.Errorf("%w: %q before the first place", errDiff, line)
		case line[0] == ' ':
			all[last].old, all[last].anew = append(all[last].old, text), append(all[last].anew, text)
		case line[0] == '-':
			all[last].old = append(all[last].old, text)
		case line[0] == '+':
			all[last].anew = append(all[last].anew, text)
		case line == "\n": // an empty line of context whose space an editor took away
			all[last].old, all[last].anew = append(all[last].old, line), append(all[last].anew, line)
		default:
			return nil, fmt.Errorf("%w: %q", errDiff, line)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: it changes nothing", errDiff)
	}
	return all, nil
}

// in changes the lines of a file at the place nearest to the hunk's line number that has the old lines.
func (h *hunk) in(lines []string) ([]string, error) {
	best := -1
	for at := range len(lines) - len(h.old) + 1 {
		if slices.Equal(lines[at:at+len(h.old)], h.old) && (best < 0 || distance(at, h.line) < distance(best, h.line)) {
			best = at
		}
	}
	if best < 0 || len(h.old) == 0 {
		return nil, fmt.Errorf("%s has no such lines any more:\n%s", h.path, strings.Join(h.old, ""))
	}
	return slices.Concat(lines[:best], h.anew, lines[best+len(h.old):]), nil
}

func distance(a, b int) int { return max(a-b, b-a) }

// Apply returns the changed files of a mutant, by their paths below root.
func (m *Mutant) Apply(root string) (changed map[string]string, err error) {
	return m.apply(func(path string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, path))
		return string(text), err
	})
}

// Check returns an error if the patch does not apply below root, or a package that it tests is not there.
func (m *Mutant) Check(root string) error {
	for _, folder := range m.Test.Packages {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	_, err := m.Apply(root)
	return err
}

func (m *Mutant) apply(read func(path string) (string, error)) (changed map[string]string, err error) {
	hunks, err := m.hunks()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	changed = map[string]string{}
	for i := range hunks {
		h := &hunks[i]
		text, is := changed[h.path]
		if !is {
			if text, err = read(h.path); err != nil {
				return nil, fmt.Errorf("%s does not apply: %w", m.Name, err)
			}
		}
		lines, err := h.in(slices.Collect(strings.Lines(text)))
		if err != nil {
			return nil, fmt.Errorf("%s does not apply: %w", m.Name, err)
		}
		changed[h.path] = strings.Join(lines, "")
	}
	return changed, nil
}

// writeOverlay puts the changed files into dir, and returns the path of the overlay file by which the go
// command reads them instead.
func writeOverlay(root, dir string, changed map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range changed {
		with := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		replace[filepath.Join(root, path)] = with
		if err := os.WriteFile(with, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
