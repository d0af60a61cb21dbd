package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// files are the paths that the diff changes, below the root of the repository.
func (m *Mutant) files() []string {
	var paths []string
	for line := range strings.Lines(string(m.diff)) {
		if path, ok := strings.CutPrefix(line, "+++ b/"); ok {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}

// Apply puts the changed files of a mutant below dir, which is empty and in no git repository, and returns them by their
// paths below root. Line numbers of the diff are hints: its context is looked for.
func (m *Mutant) Apply(ctx context.Context, root, dir string) (changed map[string]string, err error) {
	changed = map[string]string{}
	for _, path := range m.files() {
		changed[path] = filepath.Join(dir, path)
		text, err := os.ReadFile(filepath.Join(root, path))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(changed[path]), 0o700), os.WriteFile(changed[path], text, 0o600))
		}
		if err != nil {
			return nil, fmt.Errorf("%s does not apply: %w", m.Name, err)
		}
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("%s changes no file", m.Name)
	}
	git := exec.CommandContext(ctx, "git", "apply", "--recount", "--whitespace=nowarn", "-")
	git.Dir, git.Stdin = dir, bytes.NewReader(m.diff)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_DIR="+filepath.Join(dir, "none"))
	if out, err := git.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s does not apply: %w: %s", m.Name, err, bytes.TrimSpace(out))
	}
	return changed, nil
}

// writeOverlay writes what makes the go command read the changed files, and returns where.
func writeOverlay(root, dir string, changed map[string]string) (string, error) {
	replace := map[string]string{}
	for path, with := range changed {
		replace[filepath.Join(root, path)] = with
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// CheckApplies says whether the context of a mutant is still there.
func CheckApplies(ctx context.Context, root string, m *Mutant) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = m.Apply(ctx, root, dir)
	return err
}
