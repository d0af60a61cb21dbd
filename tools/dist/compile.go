package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// programsOf are the programs that a platform gets. On Windows that is the client alone.
func programsOf(p platform) []string {
	if p.os == "windows" {
		return []string{"kinesin"}
	}
	return []string{"kinesin", "kinesin-bench"}
}

// sbom names the SBOM of a program for a platform.
func (r *release) sbom(program string, p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s.cdx.json", program, r.version, p.os, p.arch)
}

// compile builds all programs, writes the SBOM of each, and has a program of this machine write the completions.
func (r *release) compile() (err error) {
	work, err := os.MkdirTemp("", "kinesin-dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	supply := filepath.Join(work, "supply")
	if err := r.run(filepath.Join(r.root, "tools", "supply"), nil, "go", "build", "-o", supply, "."); err != nil {
		return err
	}
	r.programs = map[platform]map[string][]byte{}
	for _, p := range r.platforms {
		fmt.Fprintf(os.Stderr, "dist: builds for %s (minutes where nothing is compiled yet)\n", p)
		r.programs[p] = map[string][]byte{}
		for _, name := range programsOf(p) {
			path := filepath.Join(work, p.os, p.arch, name)
			if err := r.compileOne(p, name, path); err != nil {
				return err
			}
			sbom := filepath.Join(r.out, r.sbom(name, p))
			root, err := filepath.Abs(r.root)
			if err != nil {
				return err
			}
			if err := r.run(r.root, nil, supply, "-root", root, "-version", r.version, "-sbom", sbom, path); err != nil {
				return err
			}
			if r.programs[p][name], err = os.ReadFile(path); err != nil {
				return err
			}
		}
	}
	return r.complete(work)
}

func (r *release) compileOne(p platform, name, path string) error {
	args := append(slices.Clone(r.build[1:]), "-o", path, "./cmd/"+name)
	return r.run(r.root, []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}, r.build[0], args...)
}

// complete sets what the shells complete by. It is the same on all platforms.
func (r *release) complete(work string) error {
	here := platform{runtime.GOOS, runtime.GOARCH}
	dir := filepath.Join(work, here.os, here.arch)
	r.completions = map[string][]byte{}
	for _, name := range []string{"kinesin", "kinesin-bench"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			if err := r.compileOne(here, name, path); err != nil {
				return err
			}
		}
		for _, shell := range []struct{ name, file string }{{"bash", "%s.bash"}, {"zsh", "_%s"}, {"fish", "%s.fish"}, {"powershell", "%s.ps1"}} {
			text, err := exec.Command(path, "completion", shell.name).Output()
			if err != nil {
				return fmt.Errorf("%s completion %s: %w", name, shell.name, err)
			}
			r.completions[fmt.Sprintf(shell.file, name)] = text
		}
	}
	return nil
}

// run runs a command, and fails with what it says.
func (r *release) run(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
