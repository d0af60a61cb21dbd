package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build makes the test binary of test/sim, over the runtime that takes its chances from the seed. Go's build
// cache keeps all of it.
func build(dir string) (binary string, err error) {
	overlay, err := output("go", "run", "./test/cmd/seededgo", "-dir", filepath.Join(os.TempDir(), "kinesin-seededgo"))
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "sim.test")
	cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-tags", "seeded", "-o", binary, "./test/sim")
	// Addresses decide the order of maps whose keys are pointers.
	cmd.Env = append(os.Environ(), "GOEXPERIMENT=norandomizedheapbase64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the simulation: %w\n%s", err, out)
	}
	return binary, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
