// Command dist makes the files of a release: archives, packages, an image, a Homebrew formula, packages of pip and npm, SBOMs and checksums. The same
// commit, version and Go make the same bytes: times are those of the commit, and no name of a user or machine is in them.
//
//	dist -root DIR -out DIR -version V -time SECONDS -platforms 'OS/ARCH …' -- go build FLAGS…
//
// The command after -- builds a program: dist adds -o and the package, and sets GOOS, GOARCH and CGO_ENABLED. So the flags
// are those of make build, which are in the Makefile alone.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// semver is a version without a v before it, that Python has a form for, too.
var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// sums is the file of checksums. A folder that has it is a dist, and may be replaced.
const sums = "SHA256SUMS"

func run(args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the module kinesin")
	out := flags.String("out", "dist", "folder to fill; an earlier dist there is replaced")
	version := flags.String("version", "", "version to stamp, such as 0.1.0")
	seconds := flags.String("time", "", "Unix time that all files get: that of the commit")
	asked := flags.String("platforms", "", "OS/ARCH … to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !semver.MatchString(*version) {
		return fmt.Errorf("version %q: want one such as 0.1.0 or 0.1.0-rc.1 (alpha, beta, rc)", *version)
	}
	at, err := strconv.ParseInt(*seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time %q: want seconds since 1970, as SOURCE_DATE_EPOCH or git log -1 --format=%%ct has them", *seconds)
	}
	platforms, err := parsePlatforms(*asked)
	if err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("want the command that builds after --, such as go build -trimpath")
	}
	if entries, err := os.ReadDir(*out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(*out, sums)); err != nil {
			return fmt.Errorf("%s has files and no %s, so it is no dist that may be replaced: remove it, or choose another folder", *out, sums)
		}
	}
	fresh := filepath.Clean(*out) + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	r := &release{root: *root, out: fresh, version: *version, time: time.Unix(at, 0).UTC(), platforms: platforms, build: flags.Args()}
	if err := r.make(); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return errors.Join(os.RemoveAll(*out), os.Rename(fresh, *out))
}

// platform is what a program is built for, in Go's words.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// known are the platforms that a release is made for.
var known = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func parsePlatforms(text string) (asked []platform, err error) {
	for name := range strings.FieldsSeq(text) {
		i := slices.IndexFunc(known, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("platform %q: want any of %v", name, known)
		}
		asked = append(asked, known[i])
	}
	if len(asked) == 0 {
		return nil, fmt.Errorf("no platform: want any of %v", known)
	}
	return asked, nil
}

// release is what is made, and of what.
type release struct {
	root, out string
	version   string
	time      time.Time
	platforms []platform
	build     []string // the command that builds

	programs    map[platform]map[string][]byte // by their names
	completions map[string][]byte              // by shell
}

// make makes all files, and then their checksums.
func (r *release) make() error {
	for _, step := range []func() error{r.compile, r.archives, r.packages, r.image, r.compose, r.formula, r.python, r.npm} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.checksums()
}

// read returns a file of the module.
func (r *release) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(r.root, name)) }

// write writes a file of the release.
func (r *release) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}

// sum returns the checksum of a file of the release.
func (r *release) sum(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.out, name))
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, e := range entries {
		if e.Type() != fs.FileMode(0) { // the layout of the image, whose files are named by their checksums
			continue
		}
		sum, err := r.sum(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, e.Name())
	}
	return r.write(sums, lines.Bytes())
}
