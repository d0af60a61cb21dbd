package dist

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// descriptor is what a layout knows of a blob.
type descriptor struct {
	Digest   string
	Platform struct{ OS, Architecture string }
}

// manifest is an index of images, or an image.
type manifest struct {
	Manifests []descriptor
	Config    descriptor
	Layers    []descriptor
}

// image is how an image is configured.
type image struct {
	OS, Architecture string
	Config           struct {
		User            string
		Entrypoint, Cmd []string
		Volumes         map[string]any
	}
}

func decoded[T any](t *testing.T, path string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, path)), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// unpacked unpacks the image of this machine's platform into a root file system.
func unpacked(t *testing.T) (*jail, image) {
	t.Helper()
	layout := filepath.Join(t.TempDir(), "layout")
	if err := os.Mkdir(layout, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dist(t), "kinesin_"+version(t)+"_image")
	run(t, "tar", "-xf", name+".tar", "-C", layout)
	run(t, "diff", "--recursive", layout, name)
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
	}
	index := decoded[manifest](t, filepath.Join(layout, "index.json"))
	images := decoded[manifest](t, blob(index.Manifests[0]))
	of := slices.IndexFunc(images.Manifests, func(d descriptor) bool { return d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH })
	if of < 0 {
		t.Fatalf("no image for this machine: %v", images.Manifests)
	}
	m := decoded[manifest](t, blob(images.Manifests[of]))
	c := decoded[image](t, blob(m.Config))
	j := newJail(t)
	for _, layer := range m.Layers {
		run(t, "tar", "-xzf", blob(layer), "-C", j.dir)
	}
	return j, c
}

// TestImage runs what the image runs by default, as its user: without a file of tokens it refuses, and with one it asks for them.
func TestImage(t *testing.T) {
	j, c := unpacked(t)
	if c.OS != "linux" || c.Architecture != runtime.GOARCH || c.Config.User != "65532:65532" {
		t.Errorf("%+v", c)
	}
	file := read(t, filepath.Join(root, "Dockerfile"))
	for word, have := range map[string][]string{"ENTRYPOINT": c.Config.Entrypoint, "CMD": c.Config.Cmd} {
		var want []string
		found := regexp.MustCompile(`(?m)^` + word + ` (\[.*\])$`).FindStringSubmatch(file)
		if found == nil || json.Unmarshal([]byte(found[1]), &want) != nil || !slices.Equal(have, want) {
			t.Errorf("%s is %q, that of the Dockerfile %q", word, have, want)
		}
	}
	if _, has := c.Config.Volumes["/var/lib/kinesin"]; !has || !strings.Contains(file, "\nVOLUME /var/lib/kinesin\n") {
		t.Errorf("volumes: %v", c.Config.Volumes)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(read(t, filepath.Join(j.dir, "etc/ssl/certs/ca-certificates.crt")))) {
		t.Error("it has no certificates of authorities")
	}

	port, err := loopback.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(c.Config.Entrypoint[1:], c.Config.Cmd)
	listen := slices.Index(args, ":7070") // a port that others on this machine may have
	if listen < 0 {
		t.Fatalf("it runs %v", args)
	}
	args[listen] = fmt.Sprintf(":%d", port)
	refused := j.command(c.Config.Entrypoint[0], args...)
	out, err := refused.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/run/secrets/kinesin-tokens") {
		t.Errorf("without tokens: %v\n%s", err, out)
	}

	write(t, filepath.Join(j.dir, "run/secrets/kinesin-tokens"), strings.Repeat("t", 64)+"\n", 0o444)
	j.start(j.command(c.Config.Entrypoint[0], args...))
	j.env = []string{fmt.Sprintf("KINESIN_SERVER=http://127.0.0.1:%d", port), "KINESIN_TOKEN_FILE=/run/secrets/kinesin-tokens"}
	eventually(t, "the server answers", func() bool { return j.command("/kinesin", "stats").Run() == nil })
	j.run("/kinesin", "lambda", "create", "greet")
	j.run("/kinesin", "schedule", "greet", "--in", "1h")
	j.env = j.env[:1]
	if out, err := j.command("/kinesin", "schedule", "greet", "--in", "1h").CombinedOutput(); err == nil {
		t.Errorf("without a token: %s", out)
	}
	if entries, err := os.ReadDir(filepath.Join(j.dir, "var/lib/kinesin")); err != nil || len(entries) == 0 {
		t.Errorf("the volume has %v: %v", entries, err)
	}
}
