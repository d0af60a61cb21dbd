package loopback

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Installed runs tools/TOOL/install and returns the folder that it prints. The first time on a machine,
// that may take minutes; callers ask once per program.
func Installed(tool string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	cmd := exec.Command(filepath.Join(root, "tools", tool, "install"))
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("tools/%s/install: %w\n%s", tool, err, said.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// moduleRoot is found from the working directory, which is that of the tested package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory: tools are found only from within the checkout")
		}
		dir = parent
	}
}
