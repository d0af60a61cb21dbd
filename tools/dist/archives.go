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
	"os"
	"path"
	"path/filepath"
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

// relative finds links of a README to files of the repository, which no file of a release has beside it.
var relative = regexp.MustCompile(`\]\(([a-zA-Z.][^):#]*)`)

// readme returns the README of a folder of the module, with links to the repository.
func (r *release) readme(dir string) ([]byte, error) {
	text, err := r.read(path.Join(dir, "README.md"))
	return relative.ReplaceAllFunc(text, func(link []byte) []byte {
		return []byte("](https://github.com/kinesin-io/kinesin/blob/v" + r.version + "/" + path.Join(dir, string(link[len("]("):])))
	}), err
}

// base names the files for a platform.
func (r *release) base(p platform) string {
	return fmt.Sprintf("kinesin_%s_%s_%s", r.version, p.os, p.arch)
}

// licences returns that of Kinesin and those of what its programs link, for a folder of an archive.
func (r *release) licences(dir string) (files []file, err error) {
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
		text, err := r.read(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: path.Join(dir, name), mode: 0o644, text: text})
	}
	return files, nil
}

// tree returns the files of a folder in the folder dir of the module that keep wants, by their names from dir.
func (r *release) tree(dir, folder string, keep func(name string) bool) (files []file, err error) {
	from := os.DirFS(filepath.Join(r.root, dir))
	err = fs.WalkDir(from, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(name) {
			return err
		}
		text, err := fs.ReadFile(from, name)
		files = append(files, file{name: name, mode: 0o644, text: text})
		return err
	})
	return files, err
}

// archives writes an archive for each platform: the programs, their completions, the README and the licences.
func (r *release) archives() error {
	readme, err := r.readme("")
	if err != nil {
		return err
	}
	texts, err := r.licences("")
	if err != nil {
		return err
	}
	texts = append(texts, file{name: "README.md", mode: 0o644, text: readme})
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
