package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who runs the image's program, and owns its data.
const user = 65532

// serve is what the image runs by default: a server that others can reach, and that asks each of them for a token. Without the file of
// tokens it ends and says so.
var serve = []string{"serve", "--data", "/var/lib/kinesin", "--listen", ":7070", "--auth-token-file", "/run/secrets/kinesin-tokens"}

// image writes an image for all platforms of Linux, as a layout and as a tarball of that.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	n := 0
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageOf(p)
		if err != nil {
			return err
		}
		n++
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	if n == 0 {
		return nil
	}
	name := "kinesin_" + r.version + "_image"
	path, err := layout.Write(filepath.Join(r.out, name), empty.Index)
	if err != nil {
		return err
	}
	// The first names it for a registry's clients, the second for docker load.
	named := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "ghcr.io/kinesin-io/kinesin:" + r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(named)); err != nil {
		return err
	}
	return r.tarLayout(name)
}

// imageOf makes the image of a platform, as the Dockerfile describes it.
func (r *release) imageOf(p platform) (v1.Image, error) {
	files := []file{
		{name: "etc/", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: authorities()},
		{name: "kinesin", mode: 0o755, text: r.programs[p]["kinesin"]},
		{name: "licenses/", mode: fs.ModeDir | 0o755},
	}
	licences, err := r.licences("licenses")
	if err != nil {
		return nil, err
	}
	files = append(files, licences...)
	files = append(files,
		file{name: "var/", mode: fs.ModeDir | 0o755},
		file{name: "var/lib/", mode: fs.ModeDir | 0o755},
		file{name: "var/lib/kinesin/", mode: fs.ModeDir | 0o755, owner: user},
	)
	var text bytes.Buffer
	if err := tarred(&text, files, r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "tools/dist"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.config(p, image))
}

func (r *release) config(p platform, image v1.Image) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		panic(err) // it was made above
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = p.os, p.arch, v1.Time{Time: r.time}
	c.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/kinesin"}, Cmd: serve,
		ExposedPorts: map[string]struct{}{"7070/tcp": {}}, Volumes: map[string]struct{}{"/var/lib/kinesin": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "kinesin", "org.opencontainers.image.description": "A durable scheduler of delayed tasks",
			"org.opencontainers.image.source": "https://github.com/kinesin-io/kinesin", "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version": r.version,
		},
	}
	return c
}

// authorities are the certificates of public authorities that Mozilla trusts without a condition, as the Go project publishes them.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return out.Bytes()
}

// tarLayout writes the tarball of a layout, whose files are in order.
func (r *release) tarLayout(name string) error {
	var files []file
	dir := filepath.Join(r.out, name)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files = append(files, file{name: inside + "/", mode: fs.ModeDir | 0o755})
			return os.Chmod(path, 0o755)
		}
		text, err := os.ReadFile(path)
		files = append(files, file{name: inside, mode: 0o644, text: text})
		return err
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := tarred(&out, files, r.time); err != nil {
		return err
	}
	return r.write(name+".tar", out.Bytes())
}
