package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive, or a folder without text.
type file struct {
	name  string
	mode  fs.FileMode
	text  []byte
	owner int // uid and gid
}

// relative finds links of the README to files of the repository, which an archive does not have.
var relative = regexp.MustCompile(`\]\(([a-zA-Z][^):#]*)`)

// base names the files for a platform.
func (r *release) base(p platform) string {
	return fmt.Sprintf("kinesin_%s_%s_%s", r.version, p.os, p.arch)
}

// archives writes an archive for each platform: the programs, their completions, the README and the licences.
func (r *release) archives() error {
	var texts []file
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "README.md"} {
		text, err := r.read(name)
		if err != nil {
			return err
		}
		if name == "README.md" {
			text = relative.ReplaceAll(text, []byte("](https://github.com/kinesin-io/kinesin/blob/v"+r.version+"/$1"))
		}
		texts = append(texts, file{name: name, mode: 0o644, text: text})
	}
	for _, p := range r.platforms {
		files, suffix := slices.Clone(texts), ""
		if p.os == "windows" {
			suffix = ".exe"
		}
		for _, name := range programsOf(p) {
			files = append(files, file{name: name + suffix, mode: 0o755, text: r.programs[p][name]})
		}
		for name, text := range r.completions {
			program, _, _ := strings.Cut(strings.TrimPrefix(name, "_"), ".")
			if _, has := r.programs[p][program]; has && (path.Ext(name) == ".ps1") == (p.os == "windows") {
				files = append(files, file{name: "completions/" + name, mode: 0o644, text: text})
			}
		}
		slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
		for i := range files {
			files[i].name = r.base(p) + "/" + files[i].name
		}
		var out bytes.Buffer
		name, pack := r.base(p)+".tar.gz", tarGz
		if p.os == "windows" {
			name, pack = r.base(p)+".zip", zipped
		}
		if err := pack(&out, files, r.time); err != nil {
			return err
		}
		if err := r.write(name, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func tarGz(w io.Writer, files []file, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := tarred(z, files, at); err != nil {
		return err
	}
	return z.Close()
}

// tarred writes files that belong to numbers alone.
func tarred(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Uid: f.owner, Gid: f.owner, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatUSTAR}
		if f.mode.IsDir() {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	return t.Close()
}

func zipped(w io.Writer, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := to.Write(f.text); err != nil {
			return err
		}
	}
	return z.Close()
}
