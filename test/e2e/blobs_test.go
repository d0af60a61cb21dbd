package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	motoReadyMax = time.Minute
	bucket       = "payloads"
	// blobServerBytesMax is how much more memory a server may take while payloads of 100 MB pass.
	blobServerBytesMax = 60 << 20
)

// places returns where blobs may be, each with the environment that it needs: a directory, and a bucket of
// moto's S3.
func places(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{filepath.Join(t.TempDir(), "blobs"): nil, "s3://" + bucket + "/some/prefix": startS3(t)}
}

// startS3 starts moto's S3 with a bucket, and returns the environment to use it.
func startS3(t *testing.T) (env []string) {
	t.Helper()
	python, err := loopback.Installed("moto")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(harness.FreeAddr(t), ":")
	server := harness.Start(t, harness.Command{Path: python, Args: []string{"-m", "moto.server", "-H", host, "-p", port}})
	url := "http://" + host + ":" + port
	for deadline := time.Now().Add(motoReadyMax); ; time.Sleep(50 * time.Millisecond) {
		if response, err := http.Get(url + "/moto-api/data.json"); err == nil {
			_ = response.Body.Close()
			break
		}
		if !server.Alive() || time.Now().After(deadline) {
			t.Fatalf("moto does not answer: %s", server.Stderr())
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/"+bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	return []string{"AWS_ENDPOINT_URL_S3=" + url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=y"}
}

// openPlace opens a place in this process, for which it sets the environment.
func openPlace(t *testing.T, location string, env []string) blobplace.Place {
	t.Helper()
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	p, err := blobplace.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A directory and a bucket behave the same.
func TestPlacesForBlobs(t *testing.T) {
	for location, env := range places(t) {
		p, ctx := openPlace(t, location, env), t.Context()
		for _, data := range [][]byte{[]byte("first"), bytes.Repeat([]byte{7}, 6<<20)} {
			if err := p.Put(ctx, "mail/k6b/01", data); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Get(ctx, "mail/k6b/01", int64(len(data))); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: got %d of %d bytes, %v", location, len(got), len(data), err)
			}
		}
		if _, err := p.Get(ctx, "mail/k6b/01", 100); !errors.Is(err, blobs.ErrTooLarge) {
			t.Errorf("%s: a blob that is too large: %v", location, err)
		}
		if _, err := p.Get(ctx, "mail/k6b/02", 100); !errors.Is(err, blobs.ErrNotFound) {
			t.Errorf("%s: a blob that is not there: %v", location, err)
		}
		if err := p.PutNew(ctx, "a", nil); err != nil {
			t.Fatal(err)
		}
		if err := p.PutNew(ctx, "a", []byte("again")); !errors.Is(err, blobplace.ErrExists) {
			t.Errorf("%s: a new blob with a name that is there: %v", location, err)
		}
		var all []string
		err := p.List(ctx, func(e blobs.Entry) error {
			if age := time.Since(e.Put).Abs(); age > time.Hour || e.Name != "a" && e.Bytes != 6<<20 {
				t.Errorf("%s: %+v", location, e)
			}
			all = append(all, e.Name)
			return nil
		})
		if err != nil || !slices.Equal(all, []string{"a", "mail/k6b/01"}) {
			t.Errorf("%s: list has %q, %v", location, all, err)
		}
		for range 2 {
			if err := p.Delete(ctx, "a"); err != nil {
				t.Errorf("%s: delete: %v", location, err)
			}
		}
	}
}

// Payloads of 100 MB go from the command line to a worker and back, and the server does not hold them.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	payload := make([]byte, task.BlobBytesMax)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(payload)
	file, sum := filepath.Join(t.TempDir(), "payload"), sha256.Sum256(payload)
	if err := os.WriteFile(file, payload, 0o600); err != nil {
		t.Fatal(err)
	}
	for location, env := range places(t) {
		s := harness.StartServer(t, harness.ServerOptions{Args: []string{"--blobs", location}, Env: env})
		kinesin := func(args ...string) harness.Result {
			return harness.Command{Args: append(args, "--server", s.URL), Env: append(env, "KINESIN_BLOBS="+location)}.Run(t)
		}
		s.Run("lambda", "create", "report").Must(t)
		s.Run("schedule", "report", "--payload-file", file).Refused(t, 1, "is too large", "with --blobs it may have 104857600")
		before := peak(t, s)
		id := kinesin("schedule", "report", "--payload-file", file).Must(t)
		without := s.CommandWorker("--lambda", "report", "--", "sha256sum")
		eventually(t, "a worker without a place for blobs has failed", func() bool {
			v := s.Get(id)
			return len(v.Attempts) > 0 && strings.Contains(v.Attempts[0].Error, "a blob of 104857600 bytes, and this program has no place for blobs")
		})
		without.Signal(syscall.SIGTERM)
		without.Wait(soon)
		w := harness.Start(t, harness.Command{
			Args: []string{"worker", "--server", s.URL, "--lambda", "report", "--", "sha256sum"}, Env: append(env, "KINESIN_BLOBS="+location),
		})
		s.Run("run-now", id) // unless its retry has begun
		s.Run("wait", id, "--timeout", "60s").Must(t)
		eventually(t, "the worker's command has seen the payload", func() bool { return strings.Contains(w.Stdout(), hex.EncodeToString(sum[:])) })
		var shown struct {
			PayloadBytes  int    `json:"payload_bytes"`
			PayloadBase64 string `json:"payload_base64"`
		}
		kinesin("get", id, "--payload", "-o", "json").JSON(t, &shown)
		if got, err := base64.StdEncoding.DecodeString(shown.PayloadBase64); err != nil || !bytes.Equal(got, payload) || shown.PayloadBytes != len(payload) {
			t.Errorf("%s: get shows %d bytes of %d, %v", location, len(got), shown.PayloadBytes, err)
		}
		if grown := peak(t, s) - before; grown > blobServerBytesMax {
			t.Errorf("%s: the server took %d MB more", location, grown>>20)
		}
		w.Kill()
	}
}

var vmHWM = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the most memory that a server had, in bytes.
func peak(t *testing.T, s *harness.Server) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	match := vmHWM.FindSubmatch(status)
	if match == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, _ := strconv.Atoi(string(match[1]))
	return kb << 10
}

// A server deletes old blobs that no task names, from its start on, and no others.
func TestBlobsThatNoTaskNamesAreDeleted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "blobs")
	s := harness.StartServer(t, harness.ServerOptions{Args: []string{"--blobs", dir}})
	s.Run("lambda", "create", "report").Must(t)
	payload := strings.Repeat("x", 300_000)
	later := s.Feed(payload, "schedule", "report", "--in", "1h", "--payload-file", "-", "--blobs", dir).Must(t)
	owner := task.BlobOwner{Lambda: "report", Key: "never scheduled"}
	place := openPlace(t, dir, nil)
	for n := range byte(2) {
		if err := place.Put(t.Context(), task.BlobName(owner, [16]byte{n}), []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	young := filepath.Join(dir, task.BlobName(owner, [16]byte{1}))
	aged := 0
	eventually(t, "the place belongs to the server", func() bool { _, err := os.Stat(filepath.Join(dir, "installation")); return err == nil })
	err := filepath.Walk(dir, func(file string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || file == young {
			return err
		}
		aged++
		old := time.Now().Add(-48 * time.Hour)
		return os.Chtimes(file, old, old)
	})
	if err != nil || aged != 3 {
		t.Fatal(aged, err)
	}
	s.Crash()
	s.Start()
	eventually(t, "the blob that no task names is deleted", func() bool {
		_, err := place.Get(t.Context(), task.BlobName(owner, [16]byte{0}), task.BlobBytesMax)
		return errors.Is(err, blobs.ErrNotFound)
	})
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
	var shown struct {
		Payload string `json:"payload_text"`
	}
	s.Run("get", later, "--payload", "-o", "json", "--blobs", dir).JSON(t, &shown)
	if shown.Payload != payload {
		t.Errorf("the payload of a task that waits has %d bytes", len(shown.Payload))
	}
}

func TestBadPlacesForBlobs(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, harness.ServerOptions{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{
		"gs://bucket":            "want a directory or s3://BUCKET/PREFIX",
		"s3://":                  "want s3://BUCKET",
		"s3://b?x=1":             "want s3://BUCKET",
		file:                     "not a directory",
		filepath.Join(file, "x"): "not a directory",
	} {
		s.Run("schedule", "x", "--blobs", place).Refused(t, 2, "--blobs", text)
		harness.Run(t, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--blobs", place).Refused(t, 2, "blobs", text)
	}
}
