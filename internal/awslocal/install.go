package awslocal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// installed is the folder with the class paths of both emulators. It asks once per program: the first
// time on a machine, files are fetched.
var installed = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	cmd := exec.Command(filepath.Join(root, "tools", "emulators", "install"))
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("tools/emulators/install: %w\n%s", err, said.String())
	}
	return strings.TrimSpace(out.String()), nil
})

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
			return "", errors.New("no go.mod above the working directory: the emulators run only from within the checkout")
		}
		dir = parent
	}
}
